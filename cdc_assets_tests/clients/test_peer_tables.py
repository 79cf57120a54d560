"""The peer's tables read with our code, and ours with its verdict, after one workload.

Where they differ stands in docs/compatibility.md, with the reason; a difference that is not there,
or one that is there and is none, fails.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets import apply_changes as our_apply
from cdc_assets.contract import COMPLETED_SNAPSHOT, Event
from cdc_assets.errors import SilverKeyError
from cdc_assets.finalization import is_final as our_is_final
from cdc_assets.ingest.outcome import Work
from cdc_assets.lake.tables import query
from cdc_assets.planning.losses import open_gaps
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.clients.history import COLUMNS, FIRST, History
from cdc_assets_tests.clients.peer_spark import GRANULARITY, PLACES, Peer
from cdc_assets_tests.path.helpers import load
from cdc_assets_tests.source import Project, Server, Source

SECONDS_MAX = 600.0
pytestmark = [pytest.mark.clients, pytest.mark.timeout(SECONDS_MAX)]

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
BRONZE, SILVER = f"bronze/{FIRST}", f"silver/{FIRST}"
PLACE = ("_start_lsn", "_command_id", "_seqval", "_operation")
OF_A_ROW = ("_capture_instance", *PLACE, "_commit_ts", "_snapshot", "_chunk", *COLUMNS)
HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
HOUR += timedelta(days=1)
"""Of tomorrow: the server's clock only goes on."""


@dataclass(frozen=True)
class Side:
    """One lake: its rows as our readers have them, whoever wrote them."""

    lake: Path
    facts: Sequence[FactsRow]
    control: Sequence[ControlRow]
    midway: ControlRow
    """Bronze's, after a batch within the hour of the one before it."""

    def delta(self, place: str) -> DeltaTable:
        return DeltaTable(str(self.lake / place))

    def columns(self, place: str) -> list[tuple[str, str]]:
        """Names and types, in their order."""
        return [(field.name, str(field.type)) for field in self.delta(place).schema().fields]

    def rows(self, place: str, names: Sequence[str]) -> list[tuple[Any, ...]]:
        found = query("SELECT * FROM t", t=self.delta(place)).select(list(names)).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def events(self, *kinds: Event) -> list[FactsRow]:
        return [row for row in self.facts if row.event in kinds]

    @property
    def batches(self) -> list[FactsRow]:
        return [row for row in self.facts if row.event is None]

    def verdict(self, name: str) -> datetime | None:
        """A table's; the peer's has a path around the name."""
        return next(row.finalized_until for row in self.control if name in row.table_name)


@dataclass(frozen=True)
class Both:
    """Both lakes after the workload, and who made them."""

    source: Source
    history: History
    peer: Peer
    rows: list[tuple[Any, ...]]
    """The source's."""
    theirs: Side
    ours: Side


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A snapshot, changes in the same hour, and a loss that a new snapshot heals."""
    if not server.is_sandbox:
        pytest.skip("only the sandbox's clock can be moved on to the next hour")
    folder = tmp_path_factory.mktemp("both")
    source = Source.create(server)
    project, peer = our_project(folder / "ours", source), Peer(source, folder / "theirs")
    try:
        at(source, minutes=5)
        history = History.create(source)
        history.commit(6)
        history.settle()
        work_off(peer, project)
        at(source, minutes=35)
        history.commit(12)
        history.settle()
        work_off(peer, project)
        midway = [bronze_control(peer.lake), bronze_control(project.folder / "lake" / "sales")]
        at(source, minutes=65)
        history.commit(4)
        history.settle()
        source.execute(
            "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn();"
            f" EXEC sys.sp_cdc_cleanup_change_table N'{FIRST}', @to"
        )
        at(source, minutes=125)
        history.commit(3)
        source.captured()
        work_off(peer, project)
        lakes = (peer.lake, project.folder / "lake" / "sales")
        theirs, ours = (side(lake, row) for lake, row in zip(lakes, midway, strict=True))
        yield Both(source, history, peer, rows_of(history), theirs, ours)
    finally:
        source.execute("EXEC sandbox.set_clock @shift_seconds = 0")


def our_project(folder: Path, source: Source, **table: Any) -> Project:
    """Ours, as the peer is called."""
    folder.mkdir()
    finality = {"granularity": GRANULARITY, "allowed_delay": "15m"}
    defaults = {"engine": "arrow", "on_data_loss": "resnapshot", "finality": finality}
    return Project(folder, source, tables={FIRST: table or None}, extra={"defaults": defaults})


def at(source: Source, minutes: int) -> None:
    """Move the server's clock on, to so many minutes after the hour."""
    shift = HOUR + timedelta(minutes=minutes) - datetime.now(UTC).replace(tzinfo=None)
    source.execute(f"EXEC sandbox.set_clock @shift_seconds = {shift.total_seconds():.0f}")


def work_off(peer: Peer, project: Project) -> None:
    peer.work_off(recorded=True, on_data_loss="resnapshot")
    load(project, FIRST)


def bronze_control(lake: Path) -> ControlRow:
    return next(row for row in control_rows(lake) if BRONZE in row.table_name)


def control_rows(lake: Path) -> list[ControlRow]:
    return [ControlRow(**row) for row in known(lake / "_cdc" / "control", ControlRow)]


def known(table: Path, row: type) -> list[dict[str, Any]]:
    """A table's rows, without columns that the row does not know."""
    found = query("SELECT * FROM t", t=DeltaTable(str(table))).to_pylist()
    names = row.__dataclass_fields__
    return [{name: value for name, value in one.items() if name in names} for one in found]


def side(lake: Path, midway: ControlRow) -> Side:
    facts = [FactsRow(**row) for row in known(lake / "_cdc" / "facts", FactsRow)]
    facts.sort(key=lambda row: row.written_at or datetime.min)
    return Side(lake, facts, control_rows(lake), midway)


# --- where they differ, and where they do not ----------------------------------------------------

Look = Callable[[Side], Any]


def details(*kinds: Event) -> Callable[[str], Look]:
    return lambda key: lambda one: [key in row.payload for row in one.events(*kinds)]


def told(one: Side) -> set[str]:
    """What the newest commit of changes says of itself."""
    texts = [entry.get("userMetadata") for entry in one.delta(BRONZE).history()]
    payloads = [json.loads(text) for text in texts if text]
    return set(next(payload for payload in payloads if "snapshot" not in payload))


LOOKS: dict[str, Look] = {
    "name of a table": lambda one: sorted({row.target for row in one.facts}),
    "version of a table": lambda one: set(one.delta(BRONZE).metadata().configuration),
    "columns of the facts": lambda one: set(one.columns("_cdc/facts")),
    "columns of the verdicts": lambda one: set(one.columns("_cdc/control")),
    "batch ids": lambda one: [(row.app_id, row.batch_id) for row in one.batches if row.rows],
    "batches without rows": lambda one: [row.batch_id for row in one.batches if not row.rows],
    "what a commit of changes says": told,
    "position within a period": lambda one: one.midway.end_lsn,
    "key of a snapshot": details(Event.SNAPSHOT_OPEN)("keys"),
    "instance of a snapshot": details(Event.SNAPSHOT_OPEN)("identity"),
    "high mark of a snapshot": details(*COMPLETED_SNAPSHOT)("high_mark"),
    "events of a loss": lambda one: [r.event for r in one.facts if r.lost_from_ts],
    "end of a gap": lambda one: {row.lost_to_ts for row in one.events(Event.RESNAPSHOT)},
    "clock of the capture lag": lambda one: {
        (r.capture_lag_seconds or 0) >= 0 for r in one.batches if r.rows
    },
    "columns of bronze": lambda one: one.columns(BRONZE),
    "rows of bronze": lambda one: one.rows(BRONZE, OF_A_ROW),
    "columns of silver": lambda one: one.columns(SILVER),
    "rows of silver": lambda one: one.rows(SILVER, (*COLUMNS, "_start_lsn", "_commit_ts")),
    "verdict of bronze": lambda one: one.verdict(BRONZE),
    "verdict of silver after a snapshot": lambda one: one.verdict(SILVER),
    "snapshots": lambda one: [
        (row.event, row.min_lsn, row.max_commit_ts, row.rows)
        for row in one.events(*COMPLETED_SNAPSHOT)
    ],
    "start of a gap": lambda one: {row.lost_from_ts for row in one.events(Event.RESNAPSHOT)},
    "counts of the batches": lambda one: [
        (row.rows, row.deletes, row.inserts, row.updates, row.min_lsn, row.end_lsn)
        for row in one.batches
        if row.rows
    ],
}
"""What is looked at in both, by the name that the page gives it."""


def test_the_page_has_every_difference(both: Both) -> None:
    differing = {name for name, look in LOOKS.items() if look(both.theirs) != look(both.ours)}
    page = PAGE.read_text()
    of_tables = page.partition("\n## Differences\n")[2]
    differences, _, same = of_tables.partition("\n## The same\n")
    assert set(re.findall(r"^\| ([a-z][^|]*) \|", differences, re.MULTILINE)) == differing
    assert set(re.findall(r"^- ([a-z][^:\n]*)", same, re.MULTILINE)) == set(LOOKS) - differing


# --- theirs with our code ------------------------------------------------------------------------


@pytest.fixture
def taken(both: Both, tmp_path: Path) -> Project:
    """A copy of the peer's lake under our names, without its silver."""
    project = our_project(tmp_path / "taken", both.source, keys=["id"])
    lake = project.folder / "lake" / "sales"
    shutil.copytree(both.theirs.lake, lake, ignore=shutil.ignore_patterns("silver"))
    names = {both.peer.path("bronze"): BRONZE, both.peer.path("silver"): SILVER}
    for old, new in names.items():
        for place, column in (("facts", "target"), ("control", "table_name")):
            table = DeltaTable(str(lake / "_cdc" / place))
            table.update(updates={column: f"'{new}'"}, predicate=f"{column} = '{old}'")
    return project


def test_our_readers_and_our_ranking(both: Both, taken: Project) -> None:
    """Snapshots, gaps and verdicts are as the peer has them, and silver is the source."""
    database = taken.database()
    events = database.lake.facts.events()
    snapshots, gap = snapshots_by_target(events)[BRONZE], open_gaps(events)[BRONZE]
    ours = snapshots_by_target(both.ours.facts)[BRONZE]
    assert snapshots.complete is not None
    assert ours.complete is not None
    assert snapshots.complete.at == ours.complete.at
    assert gap.start == open_gaps(both.ours.facts)[BRONZE].start
    verdict = database.lake.control.read()[BRONZE].finalized_until
    assert verdict == HOUR + timedelta(hours=2)
    outcome = apply_changes(database, FIRST)
    assert (outcome.rebuilt, outcome.hold, outcome.finalized_until) == (True, None, verdict)
    assert taken.silver(FIRST, COLUMNS) == both.theirs.rows(SILVER, COLUMNS) == both.rows


def test_a_key_has_to_be_named(both: Both, taken: Project) -> None:
    taken.tables = {FIRST: None}
    with pytest.raises(SilverKeyError, match="Name the key"):
        apply_changes(taken.database(), FIRST)


def test_a_sync_goes_on_where_the_peer_stopped(both: Both, taken: Project) -> None:
    """Bronze's rows say where, and no change comes twice."""
    both.history.commit(3)
    both.source.captured()
    outcome, _ = load(taken, FIRST)
    assert outcome.work is Work.CHANGES
    assert outcome.start is not None
    assert str(outcome.start.lsn) == max(row.end_lsn or "" for row in both.theirs.control)
    taken.assert_each_change_once(FIRST)
    assert taken.silver(FIRST, COLUMNS) == rows_of(both.history)


def rows_of(history: History) -> list[tuple[Any, ...]]:
    """The source's rows as they are now."""
    return sorted((tuple(row.values()) for row in history.rows.values()), key=repr)


# --- by name, both ways --------------------------------------------------------------------------


def moved(lake: Path, to: Path, old: str) -> dict[str, str]:
    """A copy of a lake without its silver, its rows under the places of the copy; those places."""
    shutil.copytree(lake, to, ignore=shutil.ignore_patterns("silver"))
    places = {table: str(to / place) for table, place in PLACES.items()}
    for table, column in (("facts", "target"), ("control", "table_name")):
        rows = DeltaTable(places[table])
        rows.update(updates={column: f"'{places['bronze']}'"}, predicate=f"{column} = '{old}'")
        rows.delete(f"{column} <> '{places['bronze']}'")
    return places


def test_each_applies_the_others_tables(both: Both, tmp_path: Path) -> None:
    """Tables by their paths, in place: what both make of them is the source."""
    theirs = moved(both.theirs.lake, tmp_path / "theirs", both.peer.path("bronze"))
    done = our_apply(
        both.peer.session,
        f"file://{theirs['bronze']}/",
        theirs["silver"],
        capture_instance=FIRST,
        keys=["id"],
        control_table=theirs["control"],
        facts_table=theirs["facts"],
        granularity=GRANULARITY,
    )
    ours = moved(both.ours.lake, tmp_path / "ours", BRONZE)
    its = both.peer.apply(ours["bronze"], ours["silver"], ours["control"], ours["facts"])
    for places in (theirs, ours):
        found = query("SELECT * FROM t", t=DeltaTable(places["silver"])).select(list(COLUMNS))
        assert sorted((tuple(r.values()) for r in found.to_pylist()), key=repr) == both.rows
    assert done["applied_lsn"] == its["applied_lsn"]
    assert (done["rebuilt"], its["rebuilt"]) == (True, True)
    assert done["finalized_until"] == both.theirs.verdict(BRONZE)
    # Ours has made the row of silver, so its own apply begins anew, and to the same end.
    again = both.peer.apply(*(theirs[name] for name in ("bronze", "silver", "control", "facts")))
    assert (again["rebuilt"], again["applied_lsn"]) == (True, done["applied_lsn"])
    assert again["finalized_until"] == done["finalized_until"]
    found = query("SELECT * FROM t", t=DeltaTable(theirs["silver"])).select(list(COLUMNS))
    assert sorted((tuple(r.values()) for r in found.to_pylist()), key=repr) == both.rows


# --- ours with its verdict -----------------------------------------------------------------------


def test_its_is_final_over_ours(both: Both) -> None:
    """It reads our verdicts as it reads its own: of a period in a gap, that it is final."""
    control = str(both.ours.lake / "_cdc" / "control")
    hours = [HOUR + timedelta(hours=hour) for hour in range(-1, 5)]
    for name in (BRONZE, SILVER):
        said = [both.peer.is_final(control, name, hour) for hour in hours]
        verdict = both.ours.verdict(name)
        assert said == [verdict is not None and hour <= verdict for hour in hours]
    gap, lost = open_gaps(both.ours.facts)[BRONZE], HOUR + timedelta(hours=2)
    assert gap.start < lost <= gap.end
    assert both.peer.is_final(control, BRONZE, lost)
    assert both.peer.is_final(both.peer.path("control"), both.peer.path("bronze"), lost)


def test_our_is_final_over_theirs(both: Both) -> None:
    """As it says itself, but of what is lost, and of what was before the first snapshot."""
    hours = [HOUR + timedelta(hours=hour) for hour in range(-1, 5)]
    control, gap = both.peer.path("control"), open_gaps(both.theirs.facts)[both.peer.path("bronze")]
    for table in ("bronze", "silver"):
        name = both.peer.path(table)
        its = {hour for hour in hours if both.peer.is_final(control, name, hour)}
        ours = {hour for hour in hours if our_is_final(None, control, f"file:{name}/", hour)}
        first = HOUR + timedelta(minutes=5)
        is_told = {hour for hour in its if hour - timedelta(hours=1) <= first or gap.start < hour}
        assert its - ours == (is_told if table == "bronze" else set())
