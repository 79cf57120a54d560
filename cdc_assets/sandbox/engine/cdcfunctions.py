"""sys.fn_cdc_*: LSNs and times, as subqueries over the mapping and the watermarks."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.language import collation, errors, types
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.scope import Relation, RelationColumn
from cdc_assets.sandbox.language.values import Value, raising
from cdc_assets.sandbox.results import SqlError, SqlType

LSN = types.binary(10)
_ZERO = "unhex('00000000000000000000')"


def scalar(context: Context, name: str, arguments: Sequence[Value]) -> Value | None:
    """A CDC function bound, or None when it is none."""
    if name == "SYS.FN_CDC_GET_MAX_LSN":
        _expect(name, arguments, 0)
        return Value(_max_lsn(context), LSN)
    if name == "SYS.FN_CDC_GET_MIN_LSN":
        _expect(name, arguments, 1)
        return Value(_min_lsn(context, arguments[0]), LSN)
    if name == "SYS.FN_CDC_MAP_LSN_TO_TIME":
        _expect(name, arguments, 1)
        return _map_lsn_to_time(context, arguments[0])
    if name == "SYS.FN_CDC_MAP_TIME_TO_LSN":
        _expect(name, arguments, 2)
        return _map_time_to_lsn(context, arguments[0], arguments[1])
    if name == "SYS.FN_CDC_GET_COLUMN_ORDINAL":
        _expect(name, arguments, 2)
        return _column_ordinal(context, arguments[0], arguments[1])
    return None


def _expect(name: str, arguments: Sequence[Value], count: int) -> None:
    if len(arguments) != count:
        raise SqlError(
            313,
            "An insufficient number of arguments were supplied for the procedure or function "
            f"{name.lower()}.",
        )


def _mapping(context: Context) -> str | None:
    table = context.catalog.mapping(context.current.id)
    return table.physical if table else None


def _max_lsn(context: Context) -> str:
    mapping = _mapping(context)
    return f"(SELECT max(c1) FROM {mapping})" if mapping else "CAST(NULL AS BLOB)"


def _min_lsn(context: Context, name: Value) -> str:
    """0x00… for an unknown or forbidden instance, NULL until capture has reached it.

    The name is compared as sysname is: exactly where instances differ in case only.
    """
    database = context.current.id
    if isinstance(name.constant, str):
        found = context.catalog.instance(database, name.constant.rstrip(" "))
        if found is None or not context.access.reads(database, found):
            return _ZERO
        return _reached(context, str(found.table))
    visible = [i for i in context.catalog.instances(database) if context.access.reads(database, i)]
    text = convert(name, types.nvarchar(128)).sql
    if not visible:
        return f"CASE WHEN {text} IS NULL THEN NULL ELSE {_ZERO} END"
    folded = collation.equality_key(text, types.SYSNAME)
    branches = " ".join(
        f"WHEN {collation.equality_key(_quoted(i.name), types.SYSNAME)} THEN {i.table}"
        for i in visible
    )
    number = f"(CASE {folded} {branches} ELSE 0 END)"
    return (
        f"CASE WHEN {text} IS NULL OR {number} = 0 THEN {_ZERO} "
        f"ELSE {_reached(context, number)} END"
    )


def _reached(context: Context, instance: str) -> str:
    """An instance's watermark, once capture has come that far."""
    low = f"(SELECT w.start_lsn FROM catalog.watermarks AS w WHERE w.instance = {instance})"
    return f"CASE WHEN {low} <= {_max_lsn(context)} THEN {low} END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _map_lsn_to_time(context: Context, lsn: Value) -> Value:
    mapping = _mapping(context)
    if mapping is None:
        return Value("CAST(NULL AS BIGINT)", types.DATETIME)
    wanted = convert(lsn, LSN).sql
    return Value(f"(SELECT max(c3) FROM {mapping} WHERE c1 = {wanted})", types.DATETIME)


def _map_time_to_lsn(context: Context, relation: Value, time: Value) -> Value:
    forms = {
        "largest less than": ("max", "<"),
        "largest less than or equal": ("max", "<="),
        "smallest greater than": ("min", ">"),
        "smallest greater than or equal": ("min", ">="),
    }
    found = forms.get(str(relation.constant).lower())
    if found is None:
        raise SqlError(
            313,
            "An insufficient number of arguments were supplied for the procedure or function "
            "sys.fn_cdc_map_time_to_lsn.",
        )
    mapping = _mapping(context)
    if mapping is None:
        return Value("CAST(NULL AS BLOB)", LSN)
    function, op = found
    moment = convert(time, types.DATETIME).sql
    # Idle entries have no transaction, and the function passes them over.
    return Value(
        f"(SELECT {function}(c1) FROM {mapping} WHERE c3 {op} {moment} AND c4 <> {_ZERO})", LSN
    )


def _column_ordinal(context: Context, instance: Value, column: Value) -> Value:
    found = context.catalog.instance(context.current.id, str(instance.constant))
    places = {c.name.lower(): i for i, c in enumerate(found.columns, start=1)} if found else {}
    place = places.get(str(column.constant).lower())
    text = "CAST(NULL AS INTEGER)" if place is None else f"CAST({place} AS INTEGER)"
    return Value(text, types.INT)


def changes_relation(
    context: Context, name: tuple[str, ...], arguments: Sequence[Value]
) -> Relation | None:
    """cdc.fn_cdc_get_all_changes_<instance>(from, to, filter), or None."""
    lower = name[-1].lower()
    prefix = "fn_cdc_get_all_changes_"
    if len(name) < 2 or name[-2].lower() != "cdc" or not lower.startswith(prefix):
        return None
    database = context.current.id
    instance = context.catalog.instance(database, name[-1][len(prefix) :])
    if instance is None:
        return None
    table = context.catalog.existing_table(instance.table)
    if not context.access.reads(database, instance):
        raise context.access.denied("SELECT", name[-1], "cdc", database)
    if len(arguments) != 3:
        raise errors.argument_count(lower, "3")
    return _changes(context, instance, table, arguments, name)


def _changes(
    context: Context,
    instance: e.Instance,
    table: e.Table,
    arguments: Sequence[Value],
    name: tuple[str, ...],
) -> Relation:
    option = str(arguments[2].constant).lower()
    if option not in ("all", "all update old"):
        raise errors.unsupported(f"The row filter option {arguments[2].constant}")
    low, high = (convert(a, LSN).sql for a in arguments[:2])
    floor = f"(SELECT start_lsn FROM catalog.watermarks WHERE instance = {instance.table})"
    failure = raising(
        313,
        "An insufficient number of arguments were supplied for the procedure or function "
        "cdc.fn_cdc_get_all_changes_ ... .",
    )
    outside = f"{low} IS NULL OR {high} IS NULL OR {low} < {floor} OR {high} > {_max_lsn(context)}"
    test = f"CASE WHEN {outside} OR {low} > {high} THEN {failure} ELSE TRUE END"
    operations = "" if option == "all update old" else " AND c4 <> 3"
    sql = (
        f"(SELECT * FROM {table.physical} WHERE (SELECT {test}) AND c1 >= {low} AND c1 <= {high}"
        f"{operations})"
    )
    shown = [c for c in table.columns if c.id in (1, 3, 4, 5)]
    shown += [
        c for c in table.columns if FIRST_CAPTURED <= c.id < FIRST_CAPTURED + len(instance.columns)
    ]
    columns = tuple(RelationColumn(c.name, c.physical, c.type, c.nullable) for c in shown)
    return Relation(sql, columns, (name[-1],), table.id)


def change_table_columns(columns: Sequence[e.CapturedColumn]) -> tuple[e.Column, ...]:
    """The columns of a change table."""
    mask = SqlType("varbinary", length=128)
    fixed = [
        e.Column(1, "__$start_lsn", LSN, nullable=False),
        e.Column(2, "__$end_lsn", LSN),
        e.Column(3, "__$seqval", LSN, nullable=False),
        e.Column(4, "__$operation", types.INT, nullable=False),
        e.Column(5, "__$update_mask", mask),
    ]
    captured = [
        e.Column(FIRST_CAPTURED + i, c.name, _stored(c.type)) for i, c in enumerate(columns)
    ]
    last = e.Column(FIRST_CAPTURED + len(columns), "__$command_id", types.INT)
    return (*fixed, *captured, last)


def _stored(kind: SqlType) -> SqlType:
    return types.binary(8) if kind.name == "rowversion" else kind
