"""What the facts tell of snapshots' rows, held against bronze: a backup put back has lost some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.errors import TableReplacedError
from cdc_assets.lake.facts import Facts
from cdc_assets.names import TableName
from cdc_assets.planning.positions import anew
from cdc_assets.planning.snapshots import Snapshot, Snapshots

_RETENTION = "delta.setTransactionRetentionDuration"
"""The property by which Delta forgets transaction ids; without it, never."""


@dataclass(frozen=True, slots=True)
class ToldSnapshot:
    """Up to which version bronze has a snapshot's transaction id, as the facts know."""

    snapshot: Snapshot
    app_id: str
    version: int


def told_snapshots(
    facts: Facts, taken: Mapping[TableName, Snapshots]
) -> dict[TableName, tuple[ToldSnapshot, ...]]:
    """What the facts tell of these tables' snapshots; to be asked before bronze is opened."""
    found = {table: list(_app_ids(table, snapshots)) for table, snapshots in taken.items()}
    versions = facts.versions_of(app_id for ids in found.values() for _, app_id in ids)
    return {table: tuple(_told(table, ids, versions)) for table, ids in found.items()}


def check_told(bronze: DeltaTable, table: TableName, told: Iterable[ToldSnapshot]) -> None:
    """Raise `TableReplacedError` where bronze has lost rows of a snapshot that the facts know of.

    What nobody read would be missing for good: the facts say that it was read.
    """
    for one in told:
        written = bronze.transaction_version(one.app_id)
        if written is None and _RETENTION in bronze.metadata().configuration:
            continue  # Forgotten, perhaps; a backfill looks at its own all the same.
        if written is None or written < one.version:
            raise lost_rows(table, one.snapshot, written, one.version)


def lost_rows(
    table: TableName, snapshot: Snapshot, written: int | None, told: int
) -> TableReplacedError:
    """That bronze has fewer of a snapshot's commits than the facts tell of."""
    ends = "has none" if written is None else f"ends with {written}"
    return TableReplacedError(
        f"the facts know commit {told} of its snapshot at {snapshot.at.lsn}, and bronze {ends}",
        where=str(table),
        hint=f"Restore {table.bronze_uri}. {anew(table)}",
    )


def _app_ids(table: TableName, snapshots: Snapshots) -> Iterator[tuple[Snapshot, str]]:
    """The transaction ids in the facts that tell of snapshots' rows."""
    for snapshot in (snapshots.complete, snapshots.open_chunked):
        if snapshot is not None:
            at = snapshot.at.lsn
            yield snapshot, table.wave_app(at) if snapshot.is_chunked else table.done_app(at)


def _told(
    table: TableName,
    app_ids: Iterable[tuple[Snapshot, str]],
    versions: Mapping[str, int | None],
) -> Iterator[ToldSnapshot]:
    for snapshot, app_id in app_ids:
        version = versions[app_id]
        if version is not None and not snapshot.is_chunked:
            # A whole one is one commit, and none without rows.
            version = version - 1 if version else None
        if version is not None:
            yield ToldSnapshot(snapshot, table.snapshot_app(snapshot.at.lsn), version)
