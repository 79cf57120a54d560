"""String functions that count: in UTF-16 code units, or in characters under an _SC collation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from cdc_assets.sandbox.language import codepages, types
from cdc_assets.sandbox.language import collation as collations
from cdc_assets.sandbox.language.arithmetic import concatenate
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.values import Value, raising
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

Arguments = Sequence[Value]


def text(value: Value) -> Value:
    """The argument as a string."""
    if value.type.name in types.STRINGS:
        return value
    if value.untyped_null:
        return convert(value, types.varchar(1))
    return convert(value, types.varchar(8000))


def whole(value: Value) -> str:
    """The argument as an int's text."""
    return convert(value, types.INT).sql


def varying(kind: SqlType) -> SqlType:
    """What a function gives of a char: varchar of its length."""
    if kind.name in ("char", "nchar"):
        return replace(kind, name=kind.name.replace("char", "varchar"))
    return kind


def same(sql: str, value: Value, length: int | None = None) -> Value:
    """A string computed from `value`, so of varying length."""
    kind = varying(value.type)
    if length is not None:
        kind = replace(kind, length=length)
    return value.derived(sql, kind)


def _counts_characters(kind: SqlType) -> bool:
    """Whether a supplementary character counts once: in no varchar is there one."""
    return kind.name not in types.NATIONAL or bool(re.search("_SC(_|$)", kind.collation or ""))


def _units_of_one(kind: SqlType) -> int:
    """How much of a type's length one character of a count may take."""
    return 2 if kind.name in types.NATIONAL and _counts_characters(kind) else 1


def _macro(name: str, kind: SqlType) -> str:
    return name if _counts_characters(kind) else f"{name}_units"


def _len(args: Arguments) -> Value:
    value = text(args[0])
    kind = types.BIGINT if value.type.length == MAX_LENGTH else types.INT
    size = "length" if _counts_characters(value.type) else "utf16_length"
    sql = f"CAST({size}(rtrim({value.sql}, ' ')) AS {types.physical(kind)})"
    return value.derived(sql, kind)


def _reverse(args: Arguments) -> Value:
    value = text(args[0])
    return same(f"{_macro('reverse', value.type)}({value.sql})", value)


def _substring(args: Arguments) -> Value:
    value, start, length = args
    if value.type.name not in types.STRINGS | types.BINARIES and not value.untyped_null:
        raise SqlError(
            8116,
            f"Argument data type {value.type.name} is invalid for argument 1 of substring "
            "function.",
        )
    length = _not_negative(length, 537, "LEFT or SUBSTRING")
    if value.type.name in types.BINARIES:
        cut = f"substr(hex({value.sql}), ({whole(start)} - 1) * 2 + 1, {whole(length)} * 2)"
        return value.derived(f"unhex({cut})", types.varbinary(value.type.length or 8000))
    value = text(value)
    # Positions before the first use up length, as T-SQL counts them.
    begin, size = whole(start), whole(length)
    first = f"greatest({begin}, 1)"
    # An int's largest length means the rest of the string.
    count = f"greatest(CAST({size} AS BIGINT) + least({begin}, 1) - 1, 0)"
    return same(f"{_macro('substr', value.type)}({value.sql}, {first}, {count})", value)


def _left_right(side: str) -> Callable[[Arguments], Value]:
    def bound(args: Arguments) -> Value:
        value = text(args[0])
        count = _not_negative(args[1], 536, side)
        length = None
        if isinstance(count.constant, int):
            own = value.type.length
            longest = max(1, count.constant) * _units_of_one(value.type)
            length = longest if own == MAX_LENGTH else min(own or 1, longest)
        return same(f"{_macro(side, value.type)}({value.sql}, {whole(count)})", value, length)

    return bound


def _not_negative(count: Value, number: int, function: str) -> Value:
    """A length; raises Msg 536 or 537 where it is below zero."""
    problem = f"Invalid length parameter passed to the {function} function."
    if isinstance(count.constant, int):
        if count.constant < 0:
            raise SqlError(number, problem)
        return count
    value = convert(count, types.INT)
    failure = raising(number, problem)
    return value.derived(f"CASE WHEN {value.sql} < 0 THEN {failure} ELSE {value.sql} END")


def _charindex(args: Arguments) -> Value:
    wanted, value = text(args[0]), text(args[1])
    ignores = collations.searches_any_case(value.type, "CHARINDEX")
    wide = "" if _counts_characters(value.type) else "wide"
    needle, hay = (f"{wide}({f'lower({v.sql})' if ignores else v.sql})" for v in (wanted, value))
    if len(args) == 2:
        return Value(f"CAST(instr({hay}, {needle}) AS INTEGER)", types.INT)
    start = f"greatest({whole(args[2])}, 1)"
    inner = f"instr(substr({hay}, {start}), {needle})"
    return Value(
        f"CAST(CASE WHEN {inner} = 0 THEN 0 ELSE {inner} + {start} - 1 END AS INTEGER)", types.INT
    )


def _stuff(args: Arguments) -> Value:
    value, new = text(args[0]), text(args[3])
    start, length = whole(args[1]), whole(args[2])
    size = "length" if _counts_characters(value.type) else "utf16_length"
    left, rest = _macro("left", value.type), _macro("substr", value.type)
    sql = (
        f"CASE WHEN {start} < 1 OR {length} < 0 OR {start} > {size}({value.sql}) THEN NULL ELSE "
        f"{left}({value.sql}, {start} - 1) || coalesce({new.sql}, '') || "
        f"{rest}({value.sql}, {start} + {length}, {size}({value.sql})) END"
    )
    return replace(concatenate(value, new).derived(sql), nullable=True)


def _nchar(args: Arguments) -> Value:
    code = whole(args[0])
    return Value(
        f"CASE WHEN {code} BETWEEN 0 AND 65535 THEN nchar_of({code}) END",
        types.make("nchar", (1,)),
    )


def char(args: Arguments, collation: str) -> Value:
    """CHAR: the byte's character in the database's code page."""
    code, kind = whole(args[0]), replace(types.make("char", (1,)), collation=collation)
    made = codepages.from_bytes(f"unhex(byte_hex({code}))", codepages.page_of(kind))
    return Value(f"CASE WHEN {code} BETWEEN 0 AND 255 THEN {made} END", kind)


def _ascii(args: Arguments) -> Value:
    """ASCII: the first byte, in the string's code page."""
    value = text(args[0])
    if value.type.name in types.NATIONAL:
        value = convert(value, replace(types.varchar(MAX_LENGTH), collation=value.type.collation))
    digits = codepages.to_hex(f"left({value.sql}, 1)", codepages.page_of(value.type))
    code = f"CAST('0x' || left({digits}, 2) AS INTEGER)"
    return value.derived(f"CASE WHEN {value.sql} <> '' THEN {code} END", types.INT)


def _code(args: Arguments) -> Value:
    value = text(args[0])
    code = f"unicode({value.sql})"
    if not _counts_characters(value.type):
        # Of a surrogate pair its first unit.
        code = f"CASE WHEN {code} > 65535 THEN 55296 + ({code} - 65536) // 1024 ELSE {code} END"
    return Value(f"CASE WHEN {value.sql} = '' THEN NULL ELSE {code} END", types.INT)


# name: (function, fewest arguments, most arguments)
FUNCTIONS: dict[str, tuple[Callable[[Arguments], Value], int, int]] = {
    "LEN": (_len, 1, 1),
    "REVERSE": (_reverse, 1, 1),
    "SUBSTRING": (_substring, 3, 3),
    "LEFT": (_left_right("left"), 2, 2),
    "RIGHT": (_left_right("right"), 2, 2),
    "CHARINDEX": (_charindex, 2, 3),
    "STUFF": (_stuff, 4, 4),
    "NCHAR": (_nchar, 1, 1),
    "UNICODE": (_code, 1, 1),
    "ASCII": (_ascii, 1, 1),
}
