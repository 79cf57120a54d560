"""Commit times in UTC from a server in another zone, across the changes of its clock.

The sandbox's clock is set: no real server's can be, so these run on the sandbox alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from cdc_assets.contract import Operation
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sqlserver import clock_queries
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import Project, Server, Source

ZONE = "W. Europe Standard Time"
FALL_BACK = datetime(2027, 10, 31, 1, tzinfo=UTC)
SPRING_FORWARD = datetime(2027, 3, 28, 1, tzinfo=UTC)
TABLE = "dbo_clocked"
TOLERANCE = timedelta(seconds=60)


class Clocked:
    """A sandbox whose clock is moved, and a table written to at known times."""

    def __init__(self, sandbox: Sandbox, state: Path, folder: Path, engine: str) -> None:
        admin = (state / "sales.admin.odbc").read_text().strip()
        reader = (state / "sales.odbc").read_text().strip()
        self.sandbox = sandbox
        self.server = Server(admin, reader, str(state / "ca.pem"), is_sandbox=True)
        self.folder, self.engine = folder, engine
        self.written: dict[int, datetime] = {}
        self.zone = ZONE

    def move(self, zone: str) -> None:
        """Go on in another zone, with a project of its own."""
        self.zone, self.written = zone, {}
        self.folder = self.folder / "next"
        self.folder.mkdir()

    def set_clock(self, at: datetime) -> None:
        shift = int((at - datetime.now(UTC)).total_seconds())
        self.sandbox.execute(
            f"EXEC sandbox.set_clock @zone = N'{self.zone}', @shift_seconds = {shift}", "master"
        )

    def project(self, at: datetime) -> Project:
        self.set_clock(at)
        source = Source.create(self.server)
        source.execute("CREATE TABLE dbo.clocked (id int NOT NULL PRIMARY KEY)")
        source.enable("clocked")
        project = Project(self.folder, source, self.engine, tables={TABLE: None})
        run_sync(project)
        return project

    def write(self, project: Project, at: datetime) -> None:
        self.set_clock(at)
        number = len(self.written) + 1
        project.source.execute(f"INSERT INTO dbo.clocked (id) VALUES ({number})")
        self.written[number] = at.replace(tzinfo=None)

    def assert_times(self, project: Project) -> None:
        rows = [r for r in project.bronze(TABLE) if r["_operation"] == Operation.INSERT]
        assert [row["id"] for row in rows] == sorted(self.written)
        for row in rows:
            assert abs(row["_commit_ts"] - self.written[row["id"]]) < TOLERANCE, row
        assert all(a["_commit_ts"] <= b["_commit_ts"] for a, b in pairwise(rows))


@pytest.fixture
def clocked(tmp_path: Path, engine_name: str) -> Iterator[Clocked]:
    state = tmp_path / "state"
    with Sandbox(state, capture_interval_seconds=0.0) as sandbox:
        yield Clocked(sandbox, state, tmp_path, engine_name)


@pytest.mark.parametrize("change", [FALL_BACK, SPRING_FORWARD], ids=["fall back", "spring forward"])
def test_one_batch_across_a_change_of_the_clock(clocked: Clocked, change: datetime) -> None:
    """B150, B152, B153: the repeated hour and the hour that is not there."""
    project = clocked.project(change - timedelta(hours=2))
    for minutes in (-90, -50, -10, -1, 1, 10, 50, 70, 130):
        clocked.write(project, change + timedelta(minutes=minutes))
    run_sync(project)
    clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_batch_for_each_commit(clocked: Clocked) -> None:
    """A batch that begins in the repeated hour knows which pass it is."""
    project = clocked.project(FALL_BACK - timedelta(hours=2))
    for minutes in (-50, -10, 5, 30, 55, 65):
        clocked.write(project, FALL_BACK + timedelta(minutes=minutes))
        run_sync(project)
    clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_months_in_one_batch(clocked: Clocked) -> None:
    """Equal offsets at both ends say nothing of those in between."""
    project = clocked.project(SPRING_FORWARD - timedelta(days=20))
    for days in (-10, -1, 1, 90, 180, 216, 219, 240):
        clocked.write(project, SPRING_FORWARD + timedelta(days=days))
    run_sync(project)
    clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_clock_set_back_moves_no_commit_time_back(clocked: Clocked) -> None:
    start = datetime(2027, 6, 1, 12, tzinfo=UTC)
    project = clocked.project(start)
    for minutes in (5, 30, 10, 20, 40):
        clocked.write(project, start + timedelta(minutes=minutes))
        if minutes == 30:
            run_sync(project)
    run_sync(project)
    rows = [r for r in project.bronze(TABLE) if r["_operation"] == Operation.INSERT]
    assert len(rows) == 5
    assert all(a["_commit_ts"] <= b["_commit_ts"] for a, b in pairwise(rows))
    control = project.database().lake.control.read()[f"bronze/{TABLE}"]
    assert control.end_commit_ts is not None
    assert control.end_commit_ts >= rows[-1]["_commit_ts"]


@pytest.mark.parametrize("engine_name", ["arrow"])
@pytest.mark.parametrize("change", [FALL_BACK, SPRING_FORWARD], ids=["fall back", "spring forward"])
@pytest.mark.parametrize("kept_from", [10, 70], ids=["next to it", "an hour later"])
def test_a_gap_across_a_change_of_the_clock_is_skipped(
    clocked: Clocked, change: datetime, kept_from: int
) -> None:
    """The gap's ends are in UTC, and what comes after it has its own times.

    Where the first commit that is left is in the repeated hour, nothing tells which pass it is:
    the first stands, an hour early, which never gives a verdict too soon.
    """
    project = clocked.project(change - timedelta(hours=2))
    clocked.write(project, change - timedelta(minutes=70))
    run_sync(project)
    for minutes in (-50, -5, 5):
        clocked.write(project, change + timedelta(minutes=minutes))
    clocked.write(project, change + timedelta(minutes=kept_from))
    project.source.execute(
        "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn();"
        f" EXEC sys.sp_cdc_cleanup_change_table N'{TABLE}', @to"
    )
    for minutes in (90, 130):
        clocked.write(project, change + timedelta(minutes=minutes))
    project.extra = {"defaults": {"engine": project.engine, "on_data_loss": "skip"}}
    outcome = run_sync(project).outcomes[TABLE]
    assert (outcome.work, outcome.rows) == (Work.SKIPPED, 3)
    assert outcome.gap is not None
    early = timedelta(hours=1) if (change, kept_from) == (FALL_BACK, 10) else timedelta(0)
    assert abs(outcome.gap.start - clocked.written[1]) < TOLERANCE
    assert abs(outcome.gap.end - (clocked.written[5] - early)) < TOLERANCE
    rows = [r for r in project.bronze(TABLE) if r["_operation"] == Operation.INSERT]
    assert [row["id"] for row in rows] == [1, 5, 6, 7]
    for row, by in zip(rows, (timedelta(0), early, timedelta(0), timedelta(0)), strict=True):
        assert abs(row["_commit_ts"] - (clocked.written[row["id"]] - by)) < TOLERANCE, row
    assert all(a["_commit_ts"] <= b["_commit_ts"] for a, b in pairwise(rows))
    control = project.database().lake.control.read()[f"bronze/{TABLE}"]
    assert control.end_commit_ts is not None
    assert abs(control.end_commit_ts - clocked.written[7]) < TOLERANCE


CHANGES = {
    "Pacific Standard Time": datetime(2027, 11, 7, 9, tzinfo=UTC),
    "Newfoundland Standard Time": datetime(2027, 11, 7, 4, 30, tzinfo=UTC),
    "Lord Howe Standard Time": datetime(2027, 4, 3, 15, tzinfo=UTC),  # By half an hour.
    "AUS Eastern Standard Time": datetime(2027, 10, 2, 16, tzinfo=UTC),  # Forward.
    "Nepal Standard Time": datetime(2027, 11, 7, 9, tzinfo=UTC),  # No change at all.
    "US Mountain Standard Time": datetime(2027, 11, 7, 9, tzinfo=UTC),
}
"""Zones behind and ahead of UTC, of whole hours and not, and when their clocks change."""


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_servers_around_the_world(clocked: Clocked) -> None:
    """B150, B152, B153: before, in and after the hour that comes twice, or never."""
    for zone, change in CHANGES.items():
        clocked.move(zone)
        project = clocked.project(change - timedelta(hours=3))
        for minutes in (-100, -50, -20, -1, 1, 10, 20, 40, 70, 130):
            clocked.write(project, change + timedelta(minutes=minutes))
        run_sync(project)
        clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_an_evening_in_the_west_is_the_next_day(clocked: Clocked) -> None:
    """B150, B077: 16:26:36 at UTC-8 is 00:26:36 of the next day; no snapshot is of tomorrow."""
    clocked.move("Pacific Standard Time")
    at = datetime(2027, 1, 15, 0, 26, 36, tzinfo=UTC)
    project = clocked.project(at - timedelta(hours=1))
    clocked.write(project, at)
    local = project.source.rows("SELECT CONVERT(varchar(16), MAX(tran_end_time), 120)"
                                " FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00")  # fmt: skip
    assert local == [("2027-01-14 16:26",)]
    run_sync(project)
    clocked.assert_times(project)
    load(project, TABLE)
    clocked.write(project, at + timedelta(hours=1))
    assert sync(project.database(), resnapshot=True).failed == ()
    snapshots = [r["_commit_ts"] for r in project.bronze(TABLE) if r["_operation"] == 0]
    assert snapshots
    assert max(snapshots) <= (at + timedelta(hours=1)).replace(tzinfo=None) + TOLERANCE


def older_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """One before 2022: it has no CURRENT_TIMEZONE_ID."""
    text = clock_queries.SERVER_CLOCK
    older = text.replace(">= 16", ">= 99").replace("IN (5, 8)", "IN (99)")
    assert older != text
    monkeypatch.setattr(clock_queries, "SERVER_CLOCK", older)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_an_older_server_whose_zone_the_settings_name(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B152: exact across the change, and without a warning."""
    older_server(monkeypatch)
    project = clocked.project(FALL_BACK - timedelta(hours=2))
    project.extra = {"source_time_zone": ZONE}
    for minutes in (-50, -10, 5, 50, 70):
        clocked.write(project, FALL_BACK + timedelta(minutes=minutes))
    report = run_sync(project)
    assert report.warnings == ()
    clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_an_older_server_whose_zone_nobody_names(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B152, B153: the offset of each batch, the same for all of it, and a warning that says so."""
    older_server(monkeypatch)
    project = clocked.project(FALL_BACK - timedelta(hours=2))
    for minutes in (-50, -10):
        clocked.write(project, FALL_BACK + timedelta(minutes=minutes))
    report = run_sync(project)
    assert any("Set `source_time_zone`" in warning for warning in report.warnings)
    for minutes in (70, 130):
        clocked.write(project, FALL_BACK + timedelta(minutes=minutes))
    run_sync(project)
    clocked.assert_times(project)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_the_settings_zone_wins_over_the_servers(clocked: Clocked) -> None:
    """Where an operator knows better: a server in a container that says UTC, say."""
    project = clocked.project(datetime(2027, 1, 10, 12, tzinfo=UTC))
    project.extra = {"source_time_zone": "Nepal Standard Time"}
    at = datetime(2027, 1, 10, 13, tzinfo=UTC)
    clocked.write(project, at)
    run_sync(project)
    # Local time is UTC+1, and is taken for UTC+5:45; but never before what was told already.
    told = [r["_commit_ts"] for r in project.bronze(TABLE) if r["_operation"] == Operation.INSERT]
    control = project.database().lake.control.read()[f"bronze/{TABLE}"]
    assert control.end_commit_ts is not None
    assert told[0] <= control.end_commit_ts
    assert datetime(2027, 1, 10, 11, 59) <= told[0] < datetime(2027, 1, 10, 12, 30)
