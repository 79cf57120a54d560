"""sys.fn_cdc_*: LSNs and times, as subqueries over the mapping and the watermarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.language import collation, errors, types, values
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.functions import scalar as plain
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType

LSN = types.binary(10)
ZERO = "unhex('00000000000000000000')"


@dataclass(frozen=True, slots=True)
class Place:
    """Who asks a function, and about which database: the context's current one."""

    context: Context

    @property
    def database(self) -> e.Database:
        """The database."""
        return self.context.current

    @property
    def mapping(self) -> str | None:
        """DuckDB's name of its cdc.lsn_time_mapping."""
        table = self.context.catalog.mapping(self.database.id)
        return table.physical if table else None

    def instance(self, name: str) -> e.Instance | None:
        """A capture instance that the login may see."""
        found = self.context.catalog.instance(self.database.id, name)
        if found is None or not self.context.access.reads(self.database.id, found):
            return None
        return found


def scalar(place: Place, name: str, arguments: Sequence[Value]) -> Value | None:
    """A CDC function bound, or None when it is none; raises Msg 313 or 8144."""
    known = _SCALARS.get(name)
    if known is None:
        return None
    count, bound = known
    expect(name.lower(), arguments, count)
    return bound(place, arguments)


def expect(name: str, arguments: Sequence[Value], count: int) -> None:
    """Raise Msg 313 for too few arguments, 8144 for too many."""
    if len(arguments) > count:
        raise SqlError(8144, f"Procedure or function {name} has too many arguments specified.")
    if len(arguments) < count:
        raise insufficient(name)


def insufficient(name: str) -> SqlError:
    """Msg 313, which also stands for an LSN outside the range that a function can answer for."""
    return SqlError(
        313,
        f"An insufficient number of arguments were supplied for the procedure or function {name}.",
    )


def max_lsn(place: Place) -> str:
    """The newest LSN that capture has processed, as DuckDB text."""
    mapping = place.mapping
    return f"(SELECT max(c1) FROM {mapping})" if mapping else "CAST(NULL AS BLOB)"


def _min_lsn(place: Place, name: Value) -> str:
    """0x00… for an unknown or forbidden instance, NULL until capture has reached it.

    The name is compared as the database compares names.
    """
    if isinstance(name.constant, str):
        found = place.instance(name.constant.rstrip(" "))
        return ZERO if found is None else _reached(place, str(found.table))
    database, access = place.database.id, place.context.access
    visible = [i for i in place.context.catalog.instances(database) if access.reads(database, i)]
    text = convert(name, types.nvarchar(128)).sql
    if not visible:
        return f"CASE WHEN {text} IS NULL THEN NULL ELSE {ZERO} END"
    listed = ", ".join(f"({values.quote(i.name)}, {i.table})" for i in visible)
    sysname = types.nvarchar(128, place.database.collation)
    known, asked = (collation.equality_key(t, sysname) for t in ("i.name", text))
    # A list that is joined: a branch for each instance would be planned again and again.
    return (
        f"(SELECT CASE WHEN count(*) = 0 THEN {ZERO} ELSE"
        f" max(CASE WHEN w.start_lsn <= {max_lsn(place)} THEN w.start_lsn END) END"
        f" FROM (VALUES {listed}) AS i(name, number)"
        f" LEFT JOIN catalog.watermarks AS w ON w.instance = i.number WHERE {known} = {asked})"
    )


def _reached(place: Place, instance: str) -> str:
    """An instance's watermark, once capture has come that far."""
    low = f"(SELECT w.start_lsn FROM catalog.watermarks AS w WHERE w.instance = {instance})"
    return f"CASE WHEN {low} <= {max_lsn(place)} THEN {low} END"


def _map_lsn_to_time(place: Place, lsn: Value) -> Value:
    mapping = place.mapping
    if mapping is None:
        return Value("CAST(NULL AS BIGINT)", types.DATETIME)
    wanted = convert(lsn, LSN).sql
    return Value(f"(SELECT max(c3) FROM {mapping} WHERE c1 = {wanted})", types.DATETIME)


def _map_time_to_lsn(place: Place, relation: Value, time: Value) -> Value:
    forms = {
        "largest less than": ("max", "<"),
        "largest less than or equal": ("max", "<="),
        "smallest greater than": ("min", ">"),
        "smallest greater than or equal": ("min", ">="),
    }
    found = forms.get(str(relation.constant).lower())
    if found is None:
        raise insufficient("sys.fn_cdc_map_time_to_lsn")
    mapping = place.mapping
    if mapping is None:
        return Value("CAST(NULL AS BLOB)", LSN)
    function, op = found
    moment = convert(time, types.DATETIME).sql
    # Idle entries have no transaction, and the function passes them over.
    return Value(
        f"(SELECT {function}(c1) FROM {mapping} WHERE c3 {op} {moment} AND c4 <> {ZERO})", LSN
    )


def _column_ordinal(place: Place, instance: Value, column: Value) -> Value:
    for argument in (instance, column):
        if not argument.is_constant:
            raise errors.unsupported("A column's ordinal by a name that is no constant")
    found = place.instance(str(instance.constant))
    places = {c.name.lower(): i for i, c in enumerate(found.columns, start=1)} if found else {}
    return values.integer(places.get(str(column.constant).lower()))


def _has_column_changed(place: Place, arguments: Sequence[Value]) -> Value:
    """Whether the column's bit is set; NULL for a column that is not captured."""
    ordinal = _column_ordinal(place, arguments[0], arguments[1])
    if ordinal.constant is None:
        return values.null(types.BIT)
    bit = plain("SYS.FN_CDC_IS_BIT_SET", [ordinal, arguments[2]])
    if bit is None:
        raise errors.unknown_function("sys.fn_cdc_is_bit_set")
    return bit


_SCALARS: dict[str, tuple[int, Callable[[Place, Sequence[Value]], Value]]] = {
    "SYS.FN_CDC_GET_MAX_LSN": (0, lambda p, a: Value(max_lsn(p), LSN)),
    "SYS.FN_CDC_GET_MIN_LSN": (1, lambda p, a: Value(_min_lsn(p, a[0]), LSN)),
    "SYS.FN_CDC_MAP_LSN_TO_TIME": (1, lambda p, a: _map_lsn_to_time(p, a[0])),
    "SYS.FN_CDC_MAP_TIME_TO_LSN": (2, lambda p, a: _map_time_to_lsn(p, a[0], a[1])),
    "SYS.FN_CDC_GET_COLUMN_ORDINAL": (2, lambda p, a: _column_ordinal(p, a[0], a[1])),
    "SYS.FN_CDC_HAS_COLUMN_CHANGED": (3, _has_column_changed),
}


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
