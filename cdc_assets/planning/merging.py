"""Silver's ranking and MERGE conditions: one SQL text for Spark SQL and for DataFusion.

Identifiers stand in backticks, NULL placement is written out, and keys match with `<=>`, since a
unique index admits one NULL. The order is the seed's: the latest image per key by
`(_start_lsn, _command_id, _seqval, _operation)`, NULLs first, so that a snapshot row stands
before every change of its LSN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from cdc_assets.contract import DELETED_AT, Column
from cdc_assets.contract import Operation as Op
from cdc_assets.lsn import Lsn
from cdc_assets.names import folded
from cdc_assets.planning.absent import AbsentRange, KeyValue
from cdc_assets.planning.applying import ApplyWork, ToldWave
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.literals import lsn_literal, quoted
from cdc_assets.planning.marking import IS_THERE, kept_ranking, marking_texts
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import MergeTexts

_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
_ABSENT = -1
"""Operation of a key that a chunk may not hold: deleted at its stamp, below the chunk's own row."""
REMOVED = -2
"""Operation of a key that a rebuild's source lacks: gone, whatever its image's LSN."""
_DELETES = f"{REMOVED:d}, {_ABSENT:d}, {Op.DELETE:d}, {Op.BEFORE:d}"
_UPSERTS = f"{Op.SNAPSHOT:d}, {Op.INSERT:d}, {Op.AFTER:d}"
_OURS = ("`_command_id`", "`_seqval`", "`_operation`")
"""What a ranking needs besides silver's columns."""


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


def wave_rows(snapshot: Lsn, waves: Sequence[ToldWave]) -> str:
    """Bronze rows of these waves of a chunked snapshot, and of no other.

    Stamps come first: file statistics have `_start_lsn` of any table, and of a wide one neither
    `_snapshot` nor `_chunk` (seed 0019, Amendment 3).
    """
    stamps = [wave.stamp for wave in waves]
    chunks = " OR ".join(f"`_chunk` BETWEEN {first:d} AND {last:d}" for first, last in _runs(waves))
    return (
        f"`_operation` = {Op.SNAPSHOT:d} AND `_start_lsn` >= {lsn_literal(min(stamps))}"
        f" AND `_start_lsn` <= {lsn_literal(max(stamps))}"
        f" AND `_snapshot` = {lsn_literal(snapshot)} AND ({chunks})"
    )


def _runs(waves: Sequence[ToldWave]) -> Iterator[tuple[int, int]]:
    """The chunks of waves as runs of neighbours."""
    numbers = sorted(number for wave in waves for number in wave.chunks)
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def work_rows(work: ApplyWork) -> str:
    """The bronze rows that an apply ranks."""
    if work.rows_of is not None:
        return rebuild_from(work.rows_of)
    changes = changes_above(work.since)
    if not work.waves or work.position.opened is None:
        return changes
    return f"({changes}) OR ({wave_rows(work.position.opened, work.waves)})"


@dataclass(frozen=True, slots=True)
class AbsentKeys:
    """Ranges of silver's key whose rows are gone, unless one of the ranking is newer.

    `stamped_at` are the commit times (UTC) of their stamps.
    """

    key: Column
    ranges: tuple[AbsentRange, ...]
    stamped_at: Mapping[Lsn, datetime] = field(default_factory=dict)


def merge_texts(
    columns: tuple[Column, ...],
    keys: tuple[str, ...],
    rows: str,
    *,
    above: Lsn | None = None,
    absent: AbsentKeys | None = None,
    gone: Offset | None = None,
    times: Times = Times.SPARK,
) -> MergeTexts:
    """The texts of one apply of the bronze rows that satisfy `rows`.

    `columns` are silver's, `keys` among them; with `_deleted_at` deleted rows are marked, and at a
    rebuild those that the source lacks are `gone` since then. With `above`, changes up to it are in
    silver already and only outrank others. `absent` keys are deleted at their stamps; `times` is
    how the engine that is to read the texts writes a time.
    """
    of_bronze = tuple(column for column in columns if column.name != DELETED_AT.name)
    names = [quoted(column.name) for column in of_bronze]
    by = ", ".join(quoted(key) for key in keys)
    order = [f"{quoted(name)} DESC NULLS LAST" for name in _ORDER]
    is_new = "" if above is None else _is_new(above)
    read = f"SELECT {', '.join([*names, *_OURS])} FROM `bronze` WHERE {rows}"
    keeps_deleted = len(of_bronze) < len(columns)
    lost = _gone(of_bronze, absent, times, keeps_deleted=keeps_deleted) if absent else ()
    union = " UNION ALL ".join([read, *lost])
    if keeps_deleted:
        images = tuple(name for name in names if name not in ("`_start_lsn`", "`_commit_ts`"))
        ranking = kept_ranking(union, images, by, tuple(order), _DELETES, is_new)
    else:
        rank = quoted(_unused("__rank", columns))
        ranking = (
            f"SELECT {', '.join([*names, '`_operation`'])} FROM (SELECT {', '.join(names)},"
            f" `_operation`, row_number() OVER (PARTITION BY {by} ORDER BY {', '.join(order)})"
            f" AS {rank} FROM ({union}) AS `read`) AS `ranked`"
            f" WHERE {rank} = 1{f' AND {is_new}' if is_new else ''}"
        )
    texts = MergeTexts(
        ranking=ranking,
        matched=" AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys),
        newer=f"(s.`_start_lsn` > t.`_start_lsn` OR s.`_operation` = {REMOVED:d})",
        is_delete=f"s.`_operation` IN ({_DELETES})",
        is_upsert=f"s.`_operation` IN ({_UPSERTS})",
        reads_silver=absent is not None,
    )
    return marking_texts(texts, gone, times) if keeps_deleted else texts


def _is_new(above: Lsn) -> str:
    """What silver has not applied: changes above its position, and rows of waves."""
    return f"(`_operation` <= {Op.SNAPSHOT:d} OR `_start_lsn` > {lsn_literal(above)})"


def _gone(
    columns: tuple[Column, ...], absent: AbsentKeys, times: Times, *, keeps_deleted: bool
) -> Iterator[str]:
    """Silver's keys of each range as rows at its stamp, of which a chunk's own rank above.

    Rows that are marked as deleted stay as they are: what deleted them is known better.
    """
    key = quoted(absent.key.name)
    for one in absent.ranges:
        stamp = lsn_literal(one.stamp)
        values = {absent.key.name: key, "_start_lsn": stamp}
        if (at := absent.stamped_at.get(one.stamp)) is not None:
            values["_commit_ts"] = times.format(at.isoformat(timespec="microseconds"))
        given = [f"{values.get(c.name, 'NULL')} AS {quoted(c.name)}" for c in columns]
        given += [f"NULL AS {_OURS[0]}", f"NULL AS {_OURS[1]}", f"{_ABSENT:d} AS {_OURS[2]}"]
        terms = [f"`_start_lsn` < {stamp}", *([IS_THERE] if keeps_deleted else [])]
        if one.lower is not None:
            terms.append(f"{key} >= {_bound(one.lower, times)}")
        if one.upper is not None:
            below = f"{key} < {_bound(one.upper, times)}"
            terms.append(below if one.lower is not None else f"({below} OR {key} IS NULL)")
        yield f"SELECT {', '.join(given)} FROM `silver` WHERE {' AND '.join(terms)}"


def _bound(value: KeyValue, times: Times) -> str:
    if isinstance(value, datetime):
        return times.format(value.isoformat(timespec="microseconds"))
    return f"CAST('{value.isoformat()}' AS DATE)" if isinstance(value, date) else str(value)


def passed_on_keys(
    keys: tuple[str, ...], rows: str, identity: tuple[str, ...], columns: tuple[Column, ...]
) -> str:
    """A SELECT of commits and keys: there a row gets the key before another one leaves it.

    The last change of the key is then a delete or a 3 although a row has it. `identity` are the
    columns that tell the source's rows apart; without any a 4 before the last 3 may be of the same
    row or of another one, and no order says which. The key of the capture instance's own index is
    never passed on so: SQL Server records its update as 1 and 2. `columns` are bronze's.
    """
    by = ", ".join([*(quoted(key) for key in keys), "`_start_lsn`"])
    order = ", ".join(f"{quoted(name)} DESC NULLS LAST" for name in _ORDER[1:])
    last, place, held = (quoted(_unused(n, columns)) for n in ("__last", "__place", "__held"))
    of_row = ", ".join([by, *(quoted(name) for name in identity)])
    number = f"row_number() OVER (PARTITION BY {of_row} ORDER BY {order})" if identity else "1"
    got = f"{Op.INSERT:d}, {Op.AFTER:d}" if identity else f"{Op.AFTER:d}"
    left = f"{Op.DELETE:d}, {Op.BEFORE:d}" if identity else f"{Op.BEFORE:d}"
    changes = (
        f"SELECT {by}, {', '.join(_OURS)}, {number} AS {last} FROM `bronze`"
        f" WHERE ({rows}) AND `_operation` <> {Op.SNAPSHOT:d}"
    )
    return (
        f"SELECT {by} FROM (SELECT {by}, `_operation`,"
        f" row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS {place},"
        f" max(CASE WHEN `_operation` IN ({got}) AND {last} = 1 THEN 1 ELSE 0 END)"
        f" OVER (PARTITION BY {by}) AS {held} FROM ({changes}) AS `c`) AS `r`"
        f" WHERE {place} = 1 AND {held} = 1 AND `_operation` IN ({left})"
    )


def _unused(name: str, columns: tuple[Column, ...]) -> str:
    """A name that no column has: this one, with underscores where one does."""
    taken = {folded(column.name) for column in columns}
    while name in taken:
        name += "_"
    return name
