"""Where a table stands and whether it can go on from there.

The rules are Microsoft's for CDC (`sys.fn_cdc_get_min_lsn`, cleanup), and the seed's: L0 is
recorded before the read and the changes start at it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.errors import DataLossError, HistoryChangedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import Command, TableName
from cdc_assets.planning.instances import Reader, Segment, segments
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll


def snapshot_lsn(poll: Poll, instance: CaptureInstance) -> Lsn:
    """The LSN to stamp a snapshot with: every commit up to it is in the table already.

    Capture may not have reached a new instance yet, so its first LSN less one stands in. With
    max_lsn NULL and the instance's start known, a snapshot is possible all the same.
    """
    return newest_lsn(poll, instance)


def readable_end(poll: Poll, position: Offset) -> Offset:
    """How far a table at `position` can be read now: max_lsn, with a time that never goes back.

    A NULL max_lsn (capture never ran) and one below a new instance's start leave it where it is.
    """
    if poll.max is None or poll.max.lsn <= position.lsn:
        return position
    return poll.max.no_earlier_than(position.commit_ts)


def check_continues(position: Offset, chain: Sequence[Reader], poll: Poll, *, where: str) -> None:
    """Raise `DataLossError` when the changes after `position` cannot all be there.

    Each instance that is to be read up to the poll's max_lsn must be listed, and its low
    watermark at or below the first LSN needed of it. One that was re-created is another.
    """
    first = position.lsn.next()
    for segment in segments(chain, first, max(first, readable_end(poll, position).lsn)):
        instance = poll.listed(segment.identity)
        if instance is None:
            raise _gone(segment, poll, where)
        watermark = poll.watermarks.get(instance.name) or instance.start_lsn
        if segment.first < watermark:
            raise DataLossError(
                f"changes from {segment.first} to {watermark} were removed by cleanup"
                " before they were read",
                where=where,
                hint="Take a new snapshot of the table, and lengthen the CDC retention.",
            )


def _gone(segment: Segment, poll: Poll, where: str) -> DataLossError:
    name = segment.identity.instance_name
    other = poll.instances.get(name)
    what = f"was re-created on {other.identity.created_at}" if other else "is not there any more"
    return DataLossError(
        f"capture instance {name} {what}, and changes from {segment.first} on were to be read"
        " from it",
        where=where,
        hint="Changes in between were not captured: take a new snapshot of the table.",
    )


def newest_lsn(poll: Poll, instance: CaptureInstance) -> Lsn:
    """The largest LSN that a position of this instance can have had at the poll."""
    before_start = instance.start_lsn.previous()
    return before_start if poll.max is None else max(poll.max.lsn, before_start)


def anew(table: TableName) -> str:
    """The way out of a history that cannot go on."""
    return f"Start the table anew: {table.command(Command.RESET)}."


def check_mapped(position: Offset, poll: Poll, table: TableName) -> None:
    """Raise `HistoryChangedError` for a position that the log knew once and does not know now."""
    is_past = poll.max is not None and position.lsn <= poll.max.lsn
    if is_past and position.lsn in poll.unmapped:
        raise HistoryChangedError(
            f"the position {position.lsn} is no commit of this database, which has older ones",
            where=str(table),
            hint="The database was restored or failed over. " + anew(table),
        )


def check_history(
    position: Offset, newest: Lsn, table: TableName, *, name: str = "position"
) -> None:
    """Raise `HistoryChangedError` for a position above all LSNs that the server has given.

    `newest` must have been read after the position: another sync may have moved that since.
    """
    if position.lsn > newest:
        raise HistoryChangedError(
            f"the {name} {position.lsn} is above the newest LSN {newest}",
            where=str(table),
            hint="The database was restored or failed over. " + anew(table),
        )
