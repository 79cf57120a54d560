"""cdc.fn_cdc_get_all_changes_<instance> and cdc.fn_cdc_get_net_changes_<instance>."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.cdcfunctions import LSN, ZERO, Place, expect, max_lsn
from cdc_assets.sandbox.language import collation, errors
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.scope import Relation, RelationColumn
from cdc_assets.sandbox.language.values import Value, raising

_ALL = "fn_cdc_get_all_changes_"
_NET = "fn_cdc_get_net_changes_"
_OPTIONS = {
    _ALL: ("all", "all update old"),
    _NET: ("all", "all with mask", "all with merge"),
}


FIRST_READ = "(TRUE /* the first read */)"
"""Stands where a range is checked, which is done once for a call, before its first row."""


def read_on(sql: str) -> str:
    """A query whose rows are under way, without its checks: cleanup may have come past them."""
    return sql.replace(FIRST_READ, "FALSE")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call: its change table, and the checked range as DuckDB text."""

    table: e.Table
    instance: e.Instance
    option: str
    low: str
    high: str
    check: str


def changes_relation(
    place: Place, name: tuple[str, ...], arguments: Sequence[Value]
) -> Relation | None:
    """A change function's rows, None for another function; raises Msg 208, 229, 313 or 8144."""
    if len(name) < 2 or name[-2].lower() != "cdc":
        return None
    prefix = next((p for p in _OPTIONS if name[-1].lower().startswith(p)), None)
    if prefix is None:
        return None
    context, database = place.context, place.database.id
    instance = context.catalog.instance(database, name[-1][len(prefix) :])
    if instance is None or (prefix == _NET and not instance.supports_net_changes):
        return None
    if not context.access.reads(database, instance):
        raise context.access.denied("SELECT", name[-1], "cdc", database)
    expect(f"cdc.{name[-1]}", arguments, 3)
    asked = _asked(place, instance, prefix, arguments)
    columns = [
        c for c in asked.table.columns if c.id in ((1, 3, 4, 5) if prefix == _ALL else (1, 4, 5))
    ]
    columns += [
        c
        for c in asked.table.columns
        if FIRST_CAPTURED <= c.id < FIRST_CAPTURED + len(instance.columns)
    ]
    sql = _all_changes(asked) if prefix == _ALL else _net_changes(asked, columns)
    shown = tuple(RelationColumn(c.name, c.physical, c.type, c.nullable) for c in columns)
    return Relation(sql, shown, (name[-1],), asked.table.id)


def _asked(place: Place, instance: e.Instance, prefix: str, arguments: Sequence[Value]) -> _Asked:
    """The arguments; what SQL Server's fn_cdc_check_parameters refuses is Msg 313."""
    if not arguments[2].is_constant:
        raise errors.unsupported("A row filter option that is no constant")
    option = str(arguments[2].constant).strip().lower()
    low, high = (convert(a, LSN).sql for a in arguments[:2])
    floor = f"(SELECT start_lsn FROM catalog.watermarks WHERE instance = {instance.table})"
    failure = raising(
        313,
        "An insufficient number of arguments were supplied for the procedure or function "
        f"cdc.{prefix} ... .",
    )
    wrong = (
        f"{low} IS NULL OR {high} IS NULL OR {low} < {floor} OR {low} > {high} "
        f"OR coalesce({high} > {max_lsn(place)}, TRUE)"
    )
    if option not in _OPTIONS[prefix]:
        wrong = "TRUE"
    check = f"(SELECT CASE WHEN {FIRST_READ} AND ({wrong}) THEN {failure} ELSE TRUE END)"
    table = place.context.catalog.existing_table(instance.table)
    return _Asked(table, instance, option, low, high, check)


def _in_range(asked: _Asked) -> str:
    # A comparison with NULL would be folded away, and the check with it.
    low, high = (f"coalesce({lsn}, {ZERO})" for lsn in (asked.low, asked.high))
    return f"{asked.check} AND c1 >= {low} AND c1 <= {high}"


def _all_changes(asked: _Asked) -> str:
    operations = "" if asked.option == "all update old" else " AND c4 <> 3"
    return f"(SELECT * FROM {asked.table.physical} WHERE {_in_range(asked)}{operations})"


def _net_changes(asked: _Asked, columns: Sequence[e.Column]) -> str:
    """One row per key: its last change, told as what it was for who saw the row before the range.

    A key whose first change inserts it was not there before: it is inserted, or not told at all
    when its last change deletes it.
    """
    captured = [(c, f"c{FIRST_CAPTURED + i}") for i, c in enumerate(asked.instance.columns)]
    keys = ", ".join(
        collation.equality_key(name, c.type)
        for c, name in captured
        if c.id in asked.instance.key_columns
    )
    by_key = f"PARTITION BY {keys}"
    place = "c3, c4"  # a position, and within it a delete before an insert
    if asked.option == "all with merge":
        operation = "CASE WHEN c4 = 1 THEN 1 ELSE 5 END"
    else:
        operation = "CASE WHEN first = 2 THEN 2 WHEN c4 = 1 THEN 1 WHEN alone THEN c4 ELSE 4 END"
    mask = "CAST(NULL AS BLOB)"
    if asked.option == "all with mask":
        mask = f"CASE WHEN {operation} = 4 THEN CAST(changed AS BLOB) END"
    rest = ", ".join(c.physical for c in columns if c.id >= FIRST_CAPTURED)
    return (
        f"(SELECT c1, {operation} AS c4, {mask} AS c5, {rest} FROM (SELECT *, "
        f"first_value(c4) OVER ({by_key} ORDER BY {place}) AS first, "
        f"row_number() OVER ({by_key} ORDER BY c3 DESC, c4 DESC) AS back, "
        f"count(*) OVER ({by_key}) = 1 AS alone, "
        f"bit_or(CAST(c5 AS BIT)) OVER ({by_key}) AS changed "
        f"FROM {asked.table.physical} WHERE {_in_range(asked)} AND c4 <> 3) AS r "
        f"WHERE back = 1 AND NOT (first = 2 AND c4 = 1))"
    )
