"""Scalar functions that depend on nothing but their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

from cdc_assets.sandbox.language import codepages, collation, errors, strings, types
from cdc_assets.sandbox.language.arithmetic import concatenate
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.mathematics import MATHEMATICS
from cdc_assets.sandbox.language.strings import Arguments, char, same, text, varying, whole
from cdc_assets.sandbox.language.values import Value, null
from cdc_assets.sandbox.results import DEFAULT_COLLATION, MAX_LENGTH, SqlError

_HASHES = {"MD5": "md5", "SHA1": "sha1", "SHA": "sha1", "SHA2_256": "sha256"}


def _datalength(args: Arguments) -> Value:
    value = args[0]
    kind = types.BIGINT if value.type.length == MAX_LENGTH else types.INT
    name = value.type.name
    if name in types.NATIONAL:
        size = f"utf16_length({value.sql}) * 2"
    elif name in types.NARROW:
        size = codepages.size(value.sql, codepages.page_of(value.type))
    elif name in types.BINARIES:
        size = f"octet_length({value.sql})"
    else:
        fixed = {
            "bit": 1,
            "tinyint": 1,
            "smallint": 2,
            "int": 4,
            "bigint": 8,
            "uniqueidentifier": 16,
            "real": 4,
            "float": 8,
            "money": 8,
            "smallmoney": 4,
            "datetime": 8,
            "date": 3,
        }
        if name not in fixed:
            raise errors.unsupported(f"DATALENGTH of {name}")
        size = f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {fixed[name]} END"
    return value.derived(f"CAST({size} AS {types.physical(kind)})", kind)


def _simple(function: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = text(args[0])
        return same(f"{function}({value.sql})", value)

    return bound


def _trim(side: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = text(args[0])
        return same(f"{side}({value.sql}, ' ')", value)

    return bound


def _replace(args: Arguments) -> Value:
    value, old, new = (text(a) for a in args)
    limit = (
        MAX_LENGTH
        if value.type.length == MAX_LENGTH
        else (4000 if value.type.name in types.NATIONAL else 8000)
    )
    if collation.searches_any_case(value.type, "REPLACE"):
        escaped = f"regexp_escape({old.sql})"
        safe = f"replace({new.sql}, '\\', '\\\\')"
        sql = (
            f"CASE WHEN {old.sql} = '' THEN {value.sql} ELSE "
            f"regexp_replace({value.sql}, {escaped}, {safe}, 'gi') END"
        )
    else:
        sql = f"replace({value.sql}, {old.sql}, {new.sql})"
    return Value(
        sql,
        replace(
            value.type, name="n" * (value.type.name in types.NATIONAL) + "varchar", length=limit
        ),
    )


def _concat(args: Arguments) -> Value:
    if len(args) < 2:
        raise errors.argument_count("concat", "2 to 254")
    parts = [text(arg) for arg in args]
    filled = [Value(f"coalesce({part.sql}, '')", varying(part.type), False) for part in parts]
    return reduce(concatenate, filled)


def _coalesce(args: Arguments) -> Value:
    kinds = [a.type for a in args if not a.untyped_null]
    if not kinds:
        raise SqlError(
            4127,
            "At least one of the arguments to COALESCE must be an expression that is not the "
            "NULL constant.",
        )
    kind = kinds[0]
    for other in kinds[1:]:
        kind = types.common(kind, other)
    parts = ", ".join(convert(a, kind).sql for a in args)
    # Unlike ISNULL's, its result counts as nullable as soon as one argument does.
    return Value(f"coalesce({parts})", kind, any(a.nullable for a in args))


def _isnull(args: Arguments) -> Value:
    first, second = args
    if first.untyped_null:
        return Value(second.sql, second.type, second.nullable)
    return Value(
        f"coalesce({first.sql}, {convert(second, first.type).sql})", first.type, second.nullable
    )


def _nullif(args: Arguments) -> Value:
    first, second = args
    if first.untyped_null:
        raise SqlError(
            4151,
            "The type of the first argument to NULLIF cannot be the NULL constant because the type "
            "of the first argument has to be known.",
        )
    kind = types.common(first.type, second.type)
    a = collation.equality_key(convert(first, kind).sql, kind)
    b = collation.equality_key(convert(second, kind).sql, kind)
    return Value(f"CASE WHEN {a} = {b} THEN NULL ELSE {first.sql} END", first.type)


def _choose(args: Arguments) -> Value:
    kinds = [a.type for a in args[1:] if not a.untyped_null]
    kind = reduce(types.common, kinds) if kinds else types.INT
    branches = " ".join(
        f"WHEN {number} THEN {convert(item, kind).sql}" for number, item in enumerate(args[1:], 1)
    )
    return Value(f"CASE {whole(args[0])} {branches} END", kind)


def _space(args: Arguments) -> Value:
    count = whole(args[0])
    sql = f"CASE WHEN {count} < 0 THEN NULL ELSE repeat(' ', least({count}, 8000)) END"
    return Value(sql, types.varchar(8000))


def _hashbytes(args: Arguments) -> Value:
    name = str(args[0].constant).upper()
    function = _HASHES.get(name)
    value = args[1]
    if function is None:
        raise errors.unsupported(f"HASHBYTES {name}")
    source = convert(value, types.varbinary(MAX_LENGTH)).sql
    return Value(f"unhex({function}({source}))", types.varbinary(8000))


def _quotename(args: Arguments) -> Value:
    value = text(args[0])
    mark = str(args[1].constant) if len(args) > 1 else "["
    pair = {"[": "[]", "]": "[]", "'": "''", '"': '""', "(": "()", "`": "``"}.get(mark)
    if pair is None:
        return null(types.nvarchar(258))
    opening, closing = (p.replace("'", "''") for p in pair)
    sql = f"'{opening}' || replace({value.sql}, '{closing}', '{closing}{closing}') || '{closing}'"
    # More than a name can have gives NULL.
    return Value(f"CASE WHEN length({value.sql}) <= 128 THEN {sql} END", types.nvarchar(258))


def _replicate(args: Arguments) -> Value:
    value = text(args[0])
    limit = (
        MAX_LENGTH
        if value.type.length == MAX_LENGTH
        else (4000 if value.type.name in types.NATIONAL else 8000)
    )
    count = whole(args[1])
    sql = f"CASE WHEN {count} < 0 THEN NULL ELSE repeat({value.sql}, {count}) END"
    if limit != MAX_LENGTH:
        sql = f"left({sql}, {limit})"
    return Value(
        sql,
        replace(
            value.type, name="n" * (value.type.name in types.NATIONAL) + "varchar", length=limit
        ),
    )


def _bit_set(args: Arguments) -> Value:
    """sys.fn_cdc_is_bit_set(position, mask)."""
    position, mask = whole(args[0]), args[1].sql
    digits = f"hex({mask})"
    byte = f"substr({digits}, length({digits}) - (({position} - 1) // 8) * 2 - 1, 2)"
    number = f"CAST('0x' || {byte} AS INTEGER)"
    return Value(
        f"CASE WHEN {position} < 1 OR {position} > length({digits}) * 4 THEN FALSE ELSE "
        f"(({number} >> (({position} - 1) % 8)) & 1) = 1 END",
        types.BIT,
    )


def _guid(args: Arguments) -> Value:
    del args
    return Value("upper(CAST(uuid() AS VARCHAR))", types.UNIQUEIDENTIFIER, False)


def _lsn_step(amount: int) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = convert(args[0], types.binary(10))
        return value.derived(f"lsn_plus({value.sql}, {amount})", types.binary(10))

    return bound


# name: (function, fewest arguments, most arguments)
FUNCTIONS: dict[str, tuple[Callable[[Arguments], Value], int, int]] = {
    **strings.FUNCTIONS,
    **MATHEMATICS,
    "DATALENGTH": (_datalength, 1, 1),
    "UPPER": (_simple("upper"), 1, 1),
    "LOWER": (_simple("lower"), 1, 1),
    "LTRIM": (_trim("ltrim"), 1, 1),
    "RTRIM": (_trim("rtrim"), 1, 1),
    "TRIM": (_trim("trim"), 1, 1),
    "REPLACE": (_replace, 3, 3),
    "REPLICATE": (_replicate, 2, 2),
    "CONCAT": (_concat, 2, 254),
    "CHOOSE": (_choose, 2, 254),
    "SPACE": (_space, 1, 1),
    "COALESCE": (_coalesce, 1, 254),
    "ISNULL": (_isnull, 2, 2),
    "NULLIF": (_nullif, 2, 2),
    "HASHBYTES": (_hashbytes, 2, 2),
    "QUOTENAME": (_quotename, 1, 2),
    "NEWID": (_guid, 0, 0),
    "SYS.FN_CDC_IS_BIT_SET": (_bit_set, 2, 2),
    "SYS.FN_CDC_INCREMENT_LSN": (_lsn_step(1), 1, 1),
    "SYS.FN_CDC_DECREMENT_LSN": (_lsn_step(-1), 1, 1),
}


def scalar(
    name: str, arguments: Arguments, default_collation: str = DEFAULT_COLLATION
) -> Value | None:
    """The call bound, or None when there is no such function here."""
    found = FUNCTIONS.get(name)
    if found is None and name == "CHAR":
        found = (partial(char, collation=default_collation), 1, 1)
    if found is None:
        return None
    function, fewest, most = found
    if not fewest <= len(arguments) <= most:
        wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise errors.argument_count(name.lower(), wanted)
    return function(arguments)
