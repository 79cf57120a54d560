"""What an apply does: which bronze rows, rebuild or not, and where silver stands after it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_assets.lsn import Lsn
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class Position:
    """Where silver stands: the change it has applied up to, and the snapshot it was rebuilt from.

    Both are None where there is no silver, or one that is not the recorded Delta table.
    """

    applied: Lsn | None = None
    snapshot: Lsn | None = None

    @classmethod
    def of(cls, row: ControlRow, silver_id: str | None) -> Position:
        """As control says it of the silver with this Delta id."""
        if silver_id is None or row.table_id != silver_id:
            return cls()
        return cls(
            Lsn.parse_optional(row.applied_lsn),
            Lsn.parse_optional(row.snapshot_lsn),
        )


@dataclass(frozen=True, slots=True)
class ApplyWork:
    """The bronze rows of a call, and silver's position after it.

    They are the changes above `above`, and at a rebuild the rows of the snapshot `rows_of`.
    """

    above: Lsn
    position: Position
    rows_of: Lsn | None = None
    is_empty: bool = False

    @property
    def is_rebuild(self) -> bool:
        """Whether silver is to be what these rows are, and nothing else."""
        return self.rows_of is not None


def plan_apply(
    position: Position,
    snapshots: Snapshots,
    whole: Lsn | None,
    head_above: Callable[[Lsn], Lsn | None],
) -> ApplyWork | None:
    """What a call does; None while no snapshot is complete.

    `whole` is the newest whole snapshot whose rows are in bronze, and `head_above` gives bronze's
    newest change above an LSN. A rebuild follows a snapshot newer than the one that silver was
    last rebuilt from, never one newer than the changes applied: a quiet database stamps a new one
    with just those (seed 0019).
    """
    complete = snapshots.complete
    candidates = (position.snapshot, whole, complete.at.lsn if complete else None)
    newest = max((lsn for lsn in candidates if lsn is not None), default=None)
    if newest is None:
        return None
    known, applied = position.snapshot, position.applied
    if known is None or applied is None or newest > known:
        head = head_above(newest)
        return ApplyWork(newest, Position(head or newest, newest), rows_of=newest)
    head = head_above(applied)
    return ApplyWork(applied, replace(position, applied=head or applied), is_empty=head is None)


def moved(row: ControlRow, silver_id: str, to: Position) -> ControlRow:
    """Silver's control row once a call has applied its work: never back, but for a new silver."""
    if row.table_id != silver_id:
        row = replace(row.without_position(), table_id=silver_id)
    if (row.applied_lsn or "") <= str(to.applied):
        row = replace(row, applied_lsn=str(to.applied))
    if (row.snapshot_lsn or "") <= str(to.snapshot):
        row = replace(row, snapshot_lsn=str(to.snapshot))
    return row
