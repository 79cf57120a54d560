"""The sync of one database: one poll, tables side by side, one commit of facts, one of control.

One table's failure fails that table alone; what the others wrote is recorded all the same.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.ingest import recording
from cdc_assets.ingest.advance import advance, prepare
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import NewestRows, Shared, TableOutcome, ToldLately, Work, joined
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.prepared import open_snapshots
from cdc_assets.ingest.quiet import settled, told_lately
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.resets import clear, is_stale
from cdc_assets.ingest.tidying import tidy
from cdc_assets.lake.bronze import changes_end
from cdc_assets.lake.tables import table_id
from cdc_assets.lake.told import told_snapshots
from cdc_assets.lsn import Lsn
from cdc_assets.planning.instances import (
    recorded_by_target,
    siblings,
    source_names,
    switches_by_target,
)
from cdc_assets.planning.losses import Gap, open_gaps
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.retired import retired_sources
from cdc_assets.planning.snapshots import Snapshot, snapshots_by_target
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import IDLE_CONNECTIONS_MAX, with_retries
from cdc_assets.sqlserver.grants import missing_grant


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync saw and did, table by table."""

    poll: Poll
    outcomes: Mapping[str, TableOutcome]
    control: Mapping[str, ControlRow]
    """The control rows it wrote."""
    chunked: Mapping[str, Snapshot] = field(default_factory=dict)
    """The chunked snapshots that are open after it, by table."""
    crossed: frozenset[str] = frozenset()
    """The tables whose bronze is complete up to a later time than before."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should look at although nothing failed: the database, then tables."""
        own = (self._warning,) if self._warning else ()
        tables = (f"{o.table}: {text}" for o in self.outcomes.values() for text in o.warnings)
        return (*own, *tables)

    @property
    def _warning(self) -> str | None:
        if self.poll.max is None:
            return (
                "capture has never run (max_lsn is NULL): changes wait."
                " Is SQL Server Agent running, and the capture job started?"
            )
        if self.poll.clock.zone is None:
            return (
                "the server does not name its time zone (it does since 2022): commit times are"
                " exact only without daylight saving. Set `source_time_zone`."
            )
        return None

    @property
    def failed(self) -> tuple[TableOutcome, ...]:
        """The tables that failed."""
        return tuple(o for o in self.outcomes.values() if o.error is not None)


def sync(
    database: Database, tables: Sequence[str] | None = None, *, resnapshot: bool = False
) -> SyncReport:
    """Bring these tables (by default all that are not paused) up to the source's max_lsn.

    With `resnapshot` they are read anew as a whole; their changes go on where they were. Raises
    the errors of the connection, and `TablePausedError` for a table that stands still; a table's
    own error is in its outcome.
    """
    names = tables or database.settings.active or tuple(database.settings.tables)
    database.check_active(names)
    # Asked for by those without a control row, and by quiet ones, and then once for all of them.
    newest_rows = functools.cache(database.lake.facts.newest_rows)
    lately = functools.cache(lambda: told_lately(database))
    known = known_tables(database, names, newest_rows, resnapshot=resnapshot)
    try:
        poll = with_retries(lambda: poll_tables(database, known))
        recorder = Recorder(database, poll, {one.name.bronze: one.snapshots for one in known})
        outcomes = _advanced(database, known, recorder, lately)
        tidy(database, outcomes)
    finally:
        database.connections.close(but=IDLE_CONNECTIONS_MAX)
    gaps = _gaps(known, recorder.events)
    told = {
        o.table: replace(
            o, gap=gaps.get(o.table), retention_headroom_hours=recorder.headroom_hours(o)
        )
        for o in outcomes
    }
    opened = {one.name.key: recorder.snapshots[one.name.bronze].open_chunked for one in known}
    chunked = {table: snapshot for table, snapshot in opened.items() if snapshot is not None}
    crossed = frozenset(one.name.key for one in known if _has_crossed(one, recorder.control))
    return SyncReport(poll, told, recorder.control, chunked, crossed)


def _has_crossed(known: Known, control: Mapping[str, ControlRow]) -> bool:
    before, after = known.control, control.get(known.name.bronze)
    if after is None or after.finalized_until is None:
        return False
    return before is None or before.finalized_until != after.finalized_until


def _advanced(
    database: Database, known: Sequence[Known], recorder: Recorder, lately: ToldLately
) -> list[TableOutcome]:
    """Every table's outcome, recorded: the quiet ones' at once, the others' from threads."""
    poll = recorder.poll
    found = {one.name.key: settled(database, one, poll, lately) for one in known}
    ready = [outcome for outcome in found.values() if outcome is not None]
    told: SimpleQueue[TableOutcome] = SimpleQueue()
    shared = Shared(lately, told.put)
    with ThreadPoolExecutor(database.settings.max_parallel_tables) as pool:
        left = [one for one in known if found[one.name.key] is None]
        left = _opened(database, list(pool.map(lambda one: prepare(database, one, poll), left)))
        if left:
            recorder.measure()
        working = [pool.submit(advance, database, one, poll, shared) for one in left]
        waiting = set(working)
        while ready or waiting:
            done, waiting = wait(waiting, timeout=recording.RECORD_EVERY_SECONDS)
            ready += [future.result() for future in working if future in done]
            recorder.record(_to_record(_drained(told), ready))
            found.update({outcome.table: outcome for outcome in ready})
            ready = []
    return [outcome for outcome in found.values() if outcome is not None]


def _drained(told: SimpleQueue[TableOutcome]) -> list[TableOutcome]:
    """All that has been told up to now."""
    return [told.get() for _ in range(told.qsize())]


def _to_record(
    told: Sequence[TableOutcome], finished: Sequence[TableOutcome]
) -> list[TableOutcome]:
    """What tables have told of themselves meanwhile, and the outcomes of those that are done.

    Of each table one that holds all, but for one which failed or waits: that holds nothing.
    """
    parts: dict[str, list[TableOutcome]] = defaultdict(list)
    nothing = []
    for outcome in (*told, *finished):
        if outcome.work in (Work.FAILED, Work.WAITING):
            nothing.append(outcome)
        else:
            parts[outcome.table].append(outcome)
    return [*map(joined, parts.values()), *nothing]


def _opened(database: Database, known: Sequence[Known]) -> list[Known]:
    """The tables with their first snapshots opened."""
    prepared = [one.prepared for one in known if one.prepared is not None]
    opened = open_snapshots(database, prepared) if prepared else {}
    return [one.with_opened(opened.get(one.name)) for one in known]


def _gaps(known: Sequence[Known], events: Sequence[FactsRow] | None) -> Mapping[str, Gap]:
    """Every table's open gap, by its key."""
    if events is None:
        return {one.name.key: one.gap for one in known if one.gap is not None}
    found = open_gaps(events)
    return {k.name.key: found[k.name.bronze] for k in known if k.name.bronze in found}


def known_tables(
    database: Database,
    tables: Sequence[str],
    newest_rows: NewestRows,
    *,
    resnapshot: bool = False,
) -> list[Known]:
    """What the lake says of these tables; a reset that died after its event is finished first."""
    control = database.lake.control.read()
    events = database.lake.facts.events()
    snapshots, gaps = snapshots_by_target(events), open_gaps(events)
    recorded, switches = recorded_by_target(events), switches_by_target(events)
    sources = source_names(events)
    retired = retired_sources(control, database.settings.tables)
    names = [database.table(key) for key in tables]
    stale = [
        name
        for name in names
        if any(is_stale(control.get(n), snapshots[name.bronze]) for n in (name.bronze, name.silver))
    ]
    if stale:
        clear(database, stale)
        control = database.lake.control.read()
    # Asked for by the first one that is not settled by the poll.
    told = functools.cache(
        lambda: told_snapshots(database.lake.facts, {n: snapshots[n.bronze] for n in names})
    )
    known = []
    for key in tables:
        name = database.table(key)
        own = control.get(name.bronze)
        taken = snapshots[name.bronze]
        silver, history = control.get(name.silver), control.get(name.history)
        one = Known(
            name,
            own,
            taken,
            silver_id=silver.table_id or "" if silver else None,
            history_id=history.table_id or "" if history else None,
            gap=gaps.get(name.bronze),
            recorded=recorded[name.bronze],
            switch=switches.get(name.bronze),
            source=sources.get(name.bronze),
            retired=retired,
            resnapshot=resnapshot,
            all_told=told,
        )
        known.append(_placed(database, one, newest_rows))
    return known


def known_table(database: Database, key: str) -> Known:
    """The same of one table; raises what keeps it from being known."""
    (known,) = known_tables(database, [key], functools.cache(database.lake.facts.newest_rows))
    if known.error is not None:
        raise known.error
    return known


def _placed(database: Database, known: Known, newest_rows: NewestRows) -> Known:
    """The table with where the poll starts from, or with what keeps that from being known.

    Without a control row it is what facts, bronze and S say.
    """
    snapshots = known.snapshots
    try:
        end = known.control.end if known.control else None
        if end is not None:
            return replace(known, position=snapshots.position([end]))
        if not snapshots.starts_changes:
            return known
        if known.control is None:
            last = newest_rows().get(known.name.bronze)
            known = replace(known, recorded_end=last.end if last else None)
        bronze = database.lake.bronze(known.name)
        if bronze is not None and table_id(bronze) in snapshots.discarded:
            bronze = None  # How far that was read is nothing to the table that comes next.
        written = changes_end(bronze, known.name.changes_app) if bronze else None
    except CdcError as error:
        return replace(known, error=error)
    return replace(known, position=snapshots.position([known.recorded_end, written]))


def poll_tables(database: Database, known: Sequence[Known]) -> Poll:
    """One poll for these tables; raises the grant that keeps all of them from being seen."""
    with database.connections.lend() as connection:
        listed = capture_instances(connection)
        found = _instances(database, known, listed)
        if not found:
            # The poll itself may fail for want of the same grant, and would name another.
            denied = missing_grant(connection, database.settings.instance_of(known[0].name.key))
            if denied is not None:
                raise denied
        positions = _positions(known, found, listed)
        zone = database.settings.source_time_zone
        observed = {one.observed.lsn for one in known if one.observed is not None}
        every = {i.name: i for one in found.values() for i in siblings(listed, one)}
        return poll_database(connection, every, positions, zone, observed)


def _instances(
    database: Database, known: Sequence[Known], listed: Mapping[str, CaptureInstance]
) -> dict[str, CaptureInstance]:
    """Each table's capture instance, as far as the login sees it; who lacks one fails later."""
    found = {}
    for table in known:
        try:
            wanted = database.settings.instance_of(table.name.key)
            found[table.name.key] = table.current(listed, wanted)
        except CdcError:
            continue
    return found


def _positions(
    known: Sequence[Known],
    found: Mapping[str, CaptureInstance],
    listed: Mapping[str, CaptureInstance],
) -> dict[str, Lsn]:
    """The position to ask each instance from: the smallest of the tables that share it.

    A table's second instance is asked too: it may capture what the first does not.
    """
    positions: dict[str, Lsn] = {}
    for table in known:
        if table.position is not None and table.name.key in found:
            lsn = table.position.lsn
            for instance in siblings(listed, found[table.name.key]):
                positions[instance.name] = min(lsn, positions.get(instance.name, lsn))
    return positions
