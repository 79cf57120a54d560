"""Silver that keeps deleted rows: how they are marked, and the ranking that has their last image.

A deleted row keeps its last image, the delete's LSN and its time, so that no older image brings it
back; a newer one does, and takes the mark away. How the changes were cut into calls shows nowhere:
a row that came and went within one call is kept as one that was there between two.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_assets.contract import DELETED_AT
from cdc_assets.contract import Operation as Op
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.literals import lsn_literal, quoted
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import MergeTexts

ENDED = -3
"""Operation of a key whose latest change deletes it, with an image from before the delete."""

IS_THERE = f"{quoted(DELETED_AT.name)} IS NULL"
"""The condition that a row of such a silver is not deleted."""

_MARK = ("_start_lsn", "_commit_ts", DELETED_AT.name)


def marking_texts(texts: MergeTexts, gone: Offset | None, times: Times) -> MergeTexts:
    """The same MERGE, marking what it would delete.

    Where silver has the image already, a delete sets its LSN and times alone; where it brings a
    later one, or the row is not there, all. At a rebuild what is there and not in the source is
    `gone` since then; marks that are there stay.
    """
    others = {}
    if gone is not None:
        at = times.format(gone.commit_ts.isoformat(timespec="microseconds"))
        others = dict(zip(_MARK, (lsn_literal(gone.lsn), at, at), strict=True))
    upserts = f"({texts.is_upsert} OR s.`_operation` = {ENDED:d})"
    return replace(
        texts,
        is_upsert=upserts,
        is_insert=f"({upserts} OR s.`_operation` IN ({Op.DELETE:d}, {Op.BEFORE:d}))",
        marked=_MARK,
        is_other=f"t.{IS_THERE}",
        others=others,
    )


def kept_ranking(
    union: str, names: tuple[str, ...], by: str, order: tuple[str, ...], deletes: str, is_new: str
) -> str:
    """Each key's last image among the rows of a SELECT, with what its latest row says of it.

    `names` are silver's columns but the mark and its LSN and time, quoted, and `by` its key among
    them; `order` is that of the changes, newest first. `deletes` are the operations that end a row.
    An image before a delete goes before the delete's own, which lacks some values of large types.
    """
    latest = f"OVER (PARTITION BY {by} ORDER BY {', '.join(order)})"
    own, rank = (_unused(name, names) for name in ("__own", "__rank"))
    image = f"CASE WHEN `_operation` IN ({deletes}) THEN 1 ELSE 0 END"
    ranked = (
        f"SELECT {', '.join(names)}, `_operation` AS {own},"
        f" first_value(`_start_lsn`) {latest} AS `_start_lsn`,"
        f" first_value(`_commit_ts`) {latest} AS `_commit_ts`,"
        f" first_value(`_operation`) {latest} AS `_operation`,"
        f" row_number() OVER (PARTITION BY {by} ORDER BY {', '.join([image, *order])}) AS {rank}"
        f" FROM ({union}) AS `read`"
    )
    ends = f"`_operation` IN ({deletes})"
    return (
        f"SELECT {', '.join(names)}, `_start_lsn`, `_commit_ts`,"
        f" CASE WHEN {ends} THEN `_commit_ts` END AS {quoted(DELETED_AT.name)},"
        f" CASE WHEN {ends} AND {own} NOT IN ({deletes}) THEN {ENDED:d} ELSE `_operation` END"
        f" AS `_operation` FROM ({ranked}) AS `ranked`"
        f" WHERE {rank} = 1{f' AND {is_new}' if is_new else ''}"
    )


def _unused(name: str, names: tuple[str, ...]) -> str:
    """A name that none of these quoted ones is, quoted."""
    while quoted(name) in (known.casefold() for known in names):
        name += "_"
    return quoted(name)
