"""Silver's ranking and MERGE conditions: one SQL text for Spark SQL and for DataFusion.

Identifiers stand in backticks, NULL placement is written out, and keys match with `<=>`, since a
unique index admits one NULL. The order is the seed's: the latest image per key by
`(_start_lsn, _command_id, _seqval, _operation)`, NULLs first, so that a snapshot row stands
before every change of its LSN.
"""

from __future__ import annotations

from cdc_assets.contract import Column
from cdc_assets.contract import Operation as Op
from cdc_assets.lsn import Lsn
from cdc_assets.names import folded
from cdc_assets.planning.plans import MergeTexts

_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
_DELETES = f"{Op.DELETE:d}, {Op.BEFORE:d}"
_UPSERTS = f"{Op.SNAPSHOT:d}, {Op.INSERT:d}, {Op.AFTER:d}"


def quoted(name: str) -> str:
    """An identifier for both engines; backticks, since Spark reads double quotes as text."""
    return "`" + name.replace("`", "``") + "`"


def lsn_literal(lsn: Lsn) -> str:
    """An LSN as a text literal."""
    return f"'{lsn}'"


def changes_above(applied: Lsn) -> str:
    """Bronze rows of an ordinary apply: the changes above the position, to the head."""
    return f"`_operation` <> {Op.SNAPSHOT:d} AND `_start_lsn` > {lsn_literal(applied)}"


def rebuild_from(snapshot: Lsn) -> str:
    """Bronze rows of a rebuild: the snapshot's rows and the changes after it."""
    s = lsn_literal(snapshot)
    return (
        f"(`_operation` = {Op.SNAPSHOT:d} AND coalesce(`_snapshot`, `_start_lsn`) = {s})"
        f" OR (`_operation` <> {Op.SNAPSHOT:d} AND `_start_lsn` > {s})"
    )


def merge_texts(columns: tuple[Column, ...], keys: tuple[str, ...], rows: str) -> MergeTexts:
    """The texts of one apply of the bronze rows that satisfy `rows`.

    `columns` are silver's, `keys` among them.
    """
    names = [*(quoted(column.name) for column in columns), "`_operation`"]
    by = ", ".join(quoted(key) for key in keys)
    order = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in _ORDER)
    rank = quoted(_unused("__rank", columns))
    ranking = (
        f"SELECT {', '.join(names)} FROM (SELECT {', '.join(names)},"
        f" row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS {rank}"
        f" FROM `bronze` WHERE {rows}) AS `ranked` WHERE {rank} = 1"
    )
    return MergeTexts(
        ranking=ranking,
        matched=" AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys),
        newer="s.`_start_lsn` > t.`_start_lsn`",
        is_delete=f"s.`_operation` IN ({_DELETES})",
        is_upsert=f"s.`_operation` IN ({_UPSERTS})",
    )


def _unused(name: str, columns: tuple[Column, ...]) -> str:
    """A name that no column has: this one, with underscores where one does."""
    taken = {folded(column.name) for column in columns}
    while name in taken:
        name += "_"
    return name
