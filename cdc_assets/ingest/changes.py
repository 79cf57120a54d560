"""The changes of one table since its position, as one bronze commit or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.errors import CommitConflictError, TableReplacedError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.batch import Head, append_batch
from cdc_assets.ingest.instances import follow
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import Measure, TableOutcome, Work
from cdc_assets.ingest.poll import read_max_lsn
from cdc_assets.lake.bronze import change_commits, changes_end, commit_of_rows
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import columns_of, table_id
from cdc_assets.lake.told import check_told
from cdc_assets.names import TableName
from cdc_assets.planning.advancing import BronzeProgress
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import total_wait_ms
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.positions import (
    anew,
    check_continues,
    check_history,
    newest_lsn,
    readable_end,
)
from cdc_assets.planning.records import ChangeCommit, total
from cdc_assets.planning.snapshots import Snapshots

REPLANS_MAX = 3
"""How often another writer may take the planned batch id before we give up."""


@dataclass(slots=True)
class _Run:
    """One table's changes in one sync: what bronze has that the facts lacked, and how it went.

    `recorded` is the newest batch that the facts knew at its start. `commits` and `measures` are
    by batch id, the oldest first; a batch without a measure was written by another run. `told` is
    the newest batch told of on the way.
    """

    known: Known
    instance: CaptureInstance
    poll: Poll
    bronze: DeltaTable
    recorded: int
    started_at: datetime = field(default_factory=utc_now)
    commits: dict[int, ChangeCommit] = field(default_factory=dict)
    measures: dict[int, Measure] = field(default_factory=dict)
    told: int = 0

    @property
    def newest(self) -> int:
        """The newest batch found, or else recorded."""
        return next(reversed(self.commits), self.recorded)

    @property
    def table(self) -> TableName:
        """The table's names."""
        return self.known.name

    def find(self) -> None:
        """Take the batches that bronze has beyond those taken, whoever appended them.

        None may be left out: the facts take a batch for recorded once they have a later one.
        """
        found = _untold(self.bronze, self.table, self.newest)
        self.commits.update({commit.batch_id: commit for commit in found})

    def news(self) -> list[ChangeCommit]:
        """The batches found since it was told of the last ones: of thousands, each is told once."""
        newest_first = reversed(self.commits.values())
        found = list(takewhile(lambda commit: commit.batch_id > self.told, newest_first))
        self.told = self.newest
        return found[::-1]


def read_changes(
    database: Database,
    known: Known,
    instance: CaptureInstance,
    poll: Poll,
    tell: Callable[[TableOutcome], None] | None = None,
) -> TableOutcome:
    """Append the changes in (position, max_lsn of the poll] to bronze, once.

    Position and data are one atomic commit: the commit names its range, and what is recorded
    afterwards is taken from it. That also heals a crash between commit and facts. Where the
    settings limit a batch there are several, and `tell` is told of each but the last.
    """
    run = _begun(database, known, instance, poll)
    overtaken = 0
    while overtaken < REPLANS_MAX:
        position, commit = _append_next(database, run)
        run.find()
        if commit is None:
            end = readable_end(poll, position)
            return _outcome(database, run, list(run.commits.values()), position, end)
        if run.commits.get(commit.batch_id) != commit:
            overtaken += 1
            continue
        overtaken = 0
        end = readable_end(poll, commit.end)
        if commit.end.lsn >= end.lsn:
            return _outcome(database, run, list(run.commits.values()), position, end)
        if tell is not None:
            tell(_outcome(database, run, run.news(), position, commit.end))
    raise CommitConflictError(
        "another writer appends its changes", where=str(run.table), hint="Run one sync at a time."
    )


def untold_changes(
    database: Database, known: Known, instance: CaptureInstance, poll: Poll
) -> TableOutcome | None:
    """What bronze has and the facts lack, and nothing is read; None where they lack nothing.

    For a table whose next batch will have another transaction id, and not look for these.
    """
    run = _begun(database, known, instance, poll)
    commits = list(run.commits.values())
    if not commits:
        return None
    return _outcome(database, run, commits, commits[0].start, commits[-1].end)


def _begun(database: Database, known: Known, instance: CaptureInstance, poll: Poll) -> _Run:
    """A run that knows what bronze has beyond the facts."""
    table = known.name
    # Asked before bronze: another sync may append and record meanwhile.
    recorded = database.lake.facts.version_of(table.facts_app) or 0
    bronze = existing_bronze(database, known)
    _check_recorded(bronze, table, known.snapshots, recorded)
    others_until = known.stream.others_until if known.stream else 0
    run = _Run(known, instance, poll, bronze, max(recorded, others_until))
    run.find()
    return run


def _append_next(database: Database, run: _Run) -> tuple[Offset, ChangeCommit | None]:
    """Append the batch after bronze's newest; gives the position it began at, and the batch.

    None where there is nothing after it. Another writer may have been first: then bronze has not
    this batch, but another one of its id.
    """
    began, table, chain = utc_now(), run.table, run.known.chain(run.instance, run.poll)
    written = changes_end(run.bronze, table.changes_app)
    position = run.known.position_after(written)
    _check_history(database, table, run.instance, run.poll, position)
    check_continues(position, chain, run.poll, where=str(table))
    if run.known.stream is not None:
        version = run.bronze.transaction_version(table.changes_app)
        run.known.stream.check(version, _newest(run.bronze, table), where=str(table))
    head = Head(run.bronze, position, written, run.recorded)
    commit, result = append_batch(database, run.known, run.poll, chain, head)
    faults.reach(FaultPoint.BRONZE_APPENDED)
    run.bronze.update_incremental()
    if commit is not None and result.committed:
        run.measures[commit.batch_id] = Measure(
            began,
            (utc_now() - began).total_seconds(),
            result.read_seconds,
            result.read_mb,
            result.network_wait_ms,
        )
    return position, commit


def existing_bronze(database: Database, known: Known) -> DeltaTable:
    """The bronze table that control speaks of; raises `TableReplacedError` without it.

    One that a reset has given up is not it: nobody reads what is written there. Nor is one without
    all rows of its snapshots that the facts tell of.
    """
    table = known.name
    told = known.told
    bronze = database.lake.bronze(table)
    wanted = known.control.table_id if known.control else None
    found = table_id(bronze) if bronze is not None else None
    if bronze is None or wanted not in (None, found) or found in known.snapshots.discarded:
        raise TableReplacedError(
            "its bronze table is missing, or another one stands in its place",
            where=str(table),
            hint=f"Restore {table.bronze_uri}. {anew(table)}",
        )
    check_told(bronze, table, told)
    return bronze


def _check_recorded(
    bronze: DeltaTable, table: TableName, snapshots: Snapshots, recorded: int
) -> None:
    """Raise `TableReplacedError` where bronze has lost batches that the facts know of."""
    written = bronze.transaction_version(table.changes_app) or 0
    if recorded > written and not snapshots.discarded:
        raise TableReplacedError(
            f"the facts know its batch {recorded}, and bronze ends with batch {written}",
            where=str(table),
            hint=f"Restore {table.bronze_uri}. {anew(table)}",
        )


def _check_history(
    database: Database,
    table: TableName,
    instance: CaptureInstance,
    poll: Poll,
    position: Offset,
) -> None:
    """Hold the position against max_lsn; a sync that polled later may have moved it meanwhile."""
    newest = newest_lsn(poll, instance)
    if position.lsn > newest:
        with database.connections.lend() as connection:
            newest = max(newest, read_max_lsn(connection) or newest)
        check_history(position, newest, table)


def _newest(bronze: DeltaTable, table: TableName) -> ChangeCommit | None:
    commits = change_commits(bronze, table.changes_app, None)
    return commits[0] if commits else None


def _untold(bronze: DeltaTable, table: TableName, recorded: int) -> list[ChangeCommit]:
    """The change commits that the facts lack, oldest first; rows tell where the log does not."""
    app_id = table.changes_app
    found = {commit.batch_id: commit for commit in change_commits(bronze, app_id, recorded)}
    newest = bronze.transaction_version(app_id) or recorded
    commits = (
        found.get(version) or commit_of_rows(bronze, app_id, table.bronze, version)
        for version in range(recorded + 1, newest + 1)
    )
    # What a reset gave up has no rows any more.
    return [commit for commit in commits if commit is not None]


def _outcome(
    database: Database,
    run: _Run,
    commits: Sequence[ChangeCommit],
    position: Offset,
    end: Offset,
) -> TableOutcome:
    """What bronze's log says happened up to `end`, of these batches, which the facts lacked."""
    table, own = run.table, [commit.batch_id for commit in commits]
    measured = {batch_id: run.measures[batch_id] for batch_id in own if batch_id in run.measures}
    measures = measured.values()
    newest = commits[-1] if commits else _newest(run.bronze, table)
    counts = total([commit.counts for commit in commits])
    outcome = TableOutcome(
        table=table.key,
        work=Work.CHANGES if commits else Work.QUIET,
        start=commits[0].start if commits else position,
        end=commits[-1].end if commits else end,
        rows=counts.rows if counts else 0,
        counts=counts,
        read_seconds=sum(one.read_seconds for one in measures),
        read_mb=sum(one.read_mb for one in measures),
        network_wait_ms=total_wait_ms(one.network_wait_ms for one in measures),
        started_at=run.started_at,
        duration_seconds=(utc_now() - run.started_at).total_seconds(),
        engine=commits[-1].engine if commits else "",
        columns=columns_of(run.bronze) if commits else (),
        measures=measured,
        facts=tuple(
            FactsEntry((commit.facts_row(), *commit.event_rows()), table.facts_app, commit.batch_id)
            for commit in commits
        ),
        warnings=tuple(str(change) for commit in commits for change in commit.events),
        progress=BronzeProgress(
            table_name=table.bronze,
            end=max(end, newest.end, key=lambda o: o.lsn) if newest else end,
            identity=run.instance.identity,
            granularity=database.settings.finality_of(table.key).granularity,
            changed_lsn=newest.counts.max_lsn if newest else None,
            table_id=table_id(run.bronze),
        ),
    )
    return follow(database, run.known, run.instance, run.poll, outcome)
