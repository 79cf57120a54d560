"""Beside a backfill: cleanup, a loss, another backfill, a change of the schema or the settings."""

from __future__ import annotations

from types import ModuleType

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import (
    DataLossError,
    SchemaChangedError,
    SettingsError,
    SnapshotModeError,
)
from cdc_assets.ingest import backfill as backfill_module
from cdc_assets.ingest import telling as telling_module
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.ingest.outcome import BackfillState, Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.lsn import Lsn
from cdc_assets.planning.verdict import Hold
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import (
    TABLE,
    assert_complete,
    chunked,
    events,
    lost,
    run_backfill,
)
from cdc_assets_tests.path.helpers import (
    COLUMNS,
    HOUR,
    change_items,
    clean_up,
    load,
    once,
    run_sync,
    set_clock,
)
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def engine_name() -> str:
    """What is read is decided before an engine is asked."""
    return "arrow"


@pytest.mark.sandbox
def test_it_pauses_while_cleanup_is_near(project: Project) -> None:
    """Headroom is what cleanup is behind the changes read; nothing cleaned up is in no danger.

    The server's clock comes forward to now: a table of yesterday is cleaned up to an hour before
    what was read of it, and then a sync catches up.
    """
    source = project.source
    try:
        set_clock(project, -24 * HOUR)
        chunked(project)
        run_sync(project)
        assert run_backfill(project, max_waves=1).state is BackfillState.RUNNING
        set_clock(project, -20 * HOUR)
        change_items(source)
        mark = source.captured()
        set_clock(project, -19 * HOUR)
        change_items(source, base=300)
        run_sync(project)
        clean_up(source, mark)
        set_clock(project, 0)
        low = run_backfill(project)
        assert (low.state, low.paused, low.done) == (BackfillState.WAITING_HEADROOM, True, False)
        assert "1.0 h behind the table's changes, and `min_headroom_hours` is 6" in low.reason
        assert (low.chunks_done, low.rows) == (2, 0)
        assert run_backfill(project, min_headroom_hours=0, max_waves=1).chunks_done == 4
        change_items(source, base=500)
        run_sync(project)
        assert run_backfill(project).done
    finally:
        set_clock(project, 0)
    assert_complete(project)


def test_cleanup_may_pass_s(project: Project) -> None:
    """B074: the changes are read beside it, so retention bounds neither the chunks nor S."""
    chunked(project, defaults={"min_headroom_hours": 0})
    run_sync(project)
    run_backfill(project, max_waves=1)
    change_items(project.source)
    run_sync(project)
    clean_up(project.source)
    change_items(project.source, base=300)
    assert run_backfill(project).done
    assert len(events(project, Event.SNAPSHOT_OPEN)) == 1
    assert_complete(project)


def test_a_loss_abandons_it(project: Project) -> None:
    """B074: a new one at a higher S takes its place, with the gap; the old one is read no more."""
    lost(project)
    with pytest.raises(DataLossError, match="cannot be completed: changes from"):
        run_backfill(project)
    (failed,) = sync(project.database()).failed
    assert isinstance(failed.error, DataLossError)
    old = Lsn.parse(events(project, Event.SNAPSHOT_OPEN)[0].max_lsn or "")
    project.extra["defaults"]["on_data_loss"] = "resnapshot"
    opened = run_sync(project).outcomes[TABLE]
    assert (opened.work, opened.gap is not None) == (Work.OPENED, True)
    assert opened.end is not None
    assert opened.end.lsn > old
    with pytest.raises(SettingsError, match=f"its newest open one is at {opened.end.lsn}"):
        run_backfill(project, snapshot=old)
    change_items(project.source, base=300)
    assert run_sync(project).outcomes[TABLE].rows
    assert run_backfill(project, snapshot=opened.end.lsn).done
    found = [row.event for row in events(project) if row.event != Event.SNAPSHOT_CHUNK]
    assert found == [
        *(Event.SNAPSHOT_OPEN, Event.SNAPSHOT_PLAN),
        *(Event.RECOVERING, Event.SNAPSHOT_OPEN, Event.SNAPSHOT_PLAN, Event.BOOTSTRAP),
    ]
    assert_complete(project)
    acknowledge(project.database(), TABLE)
    assert run_sync(project).outcomes[TABLE].gap is None


def test_a_person_may_give_it_up(project: Project) -> None:
    """A new snapshot closes the gap; of the old one only its rows in bronze stay."""
    lost(project)
    opened = sync(project.database(), resnapshot=True).outcomes[TABLE]
    assert opened.work is Work.OPENED
    assert run_backfill(project).done
    assert_complete(project)
    assert len({r["_snapshot"] for r in project.bronze(TABLE) if r["_operation"] == 0}) == 2


def test_it_is_abandoned_in_the_middle_of_a_call(project: Project) -> None:
    lost(project)
    project.extra["defaults"]["on_data_loss"] = "resnapshot"
    # The other run comes after this one has looked which is open.
    with pytest.MonkeyPatch.context() as patch:
        once(patch, backfill_module, "_step", lambda: run_sync(project))
        given_up = run_backfill(project)
    assert (given_up.state, given_up.paused) == (BackfillState.ABANDONED, True)
    assert run_backfill(project).done
    assert_complete(project)


def test_a_reset_gives_it_up(project: Project) -> None:
    chunked(project)
    run_sync(project)
    run_backfill(project, max_waves=1)
    with pytest.MonkeyPatch.context() as patch:
        once(patch, backfill_module, "_step", lambda: reset(project.database(), TABLE))
        assert run_backfill(project).state is BackfillState.ABANDONED
    assert run_backfill(project).state is BackfillState.NO_SNAPSHOT
    change_items(project.source)
    assert run_sync(project).outcomes[TABLE].work is Work.OPENED
    assert run_backfill(project).done
    assert_complete(project)


@pytest.mark.parametrize(
    ("module", "moment"),
    [(telling_module, "tell_wave"), (backfill_module, "append_wave")],
    ids=["tell", "append"],
)
def test_two_at_once(project: Project, module: ModuleType, moment: str) -> None:
    """The one that comes second finds the other's waves, and reads none of their chunks again."""
    chunked(project, rows=12)
    run_sync(project)
    with pytest.MonkeyPatch.context() as patch:
        once(patch, module, moment, lambda: run_backfill(project, max_waves=1))
        assert run_backfill(project).done
    told = [row.payload["chunk"] for row in events(project, Event.SNAPSHOT_CHUNK)]
    assert told == list(range(6))
    assert_complete(project)


def test_the_plan_stays(project: Project) -> None:
    """B079: whatever the settings say later, and whoever else is added."""
    chunked(project, rows=12)
    run_sync(project)
    run_backfill(project, max_waves=1)
    project.source.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY)")
    project.source.enable("other")
    project.extra["num_partitions"] = 3
    project.tables = {
        TABLE: {"snapshot": "chunked", "chunk_rows": 100},
        "dbo_other": {"snapshot": "chunked"},
    }
    report = run_sync(project)
    assert report.outcomes["dbo_other"].work is Work.OPENED
    done = run_backfill(project)
    assert (done.done, done.chunks_total) == (True, 6)
    told = [(r.payload["wave"], r.payload["chunk"]) for r in events(project, Event.SNAPSHOT_CHUNK)]
    assert told == [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4), (2, 5)]
    assert_complete(project)


def test_the_schema_changes_in_the_middle(project: Project) -> None:
    """B073: a column more is NULL; a type that bronze cannot hold stops it before it reads."""
    chunked(project, rows=12)
    run_sync(project)
    run_backfill(project, max_waves=1)
    project.source.execute("ALTER TABLE dbo.items ADD more int NULL")
    assert run_backfill(project, max_waves=1).chunks_done == 4
    project.source.execute("ALTER TABLE dbo.items ALTER COLUMN price decimal(18,6) NULL")
    rows = len(project.bronze(TABLE))
    with pytest.raises(SchemaChangedError, match="price is DECIMAL"):
        run_backfill(project)
    assert len(project.bronze(TABLE)) == rows
    project.source.execute("ALTER TABLE dbo.items ALTER COLUMN price decimal(12,4) NULL")
    change_items(project.source)
    assert run_backfill(project).done
    assert_complete(project)


def test_a_further_snapshot_in_chunks(project: Project) -> None:
    """Silver goes on with the changes, and its verdict waits; then it is rebuilt."""
    chunked(project)
    project.tables = {TABLE: {"snapshot": "full"}}
    load(project)
    change_items(project.source)
    load(project)
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2}}
    assert sync(project.database(), resnapshot=True).outcomes[TABLE].work is Work.OPENED
    until = project.database().lake.control.read()[f"silver/{TABLE}"].finalized_until
    change_items(project.source, base=300)
    _, applied = load(project)
    assert (applied.rebuilt, applied.hold) == (False, Hold.SNAPSHOT_OPEN)
    assert applied.upserted
    assert applied.finalized_until == until
    project.assert_identical(TABLE, COLUMNS)
    run_backfill(project, max_waves=1)
    assert apply_changes(project.database(), TABLE).finalized_until == until
    assert run_backfill(project).done
    assert load(project)[1].rebuilt
    assert_complete(project)


@pytest.mark.sandbox
def test_a_whole_one_is_not_backfilled(project: Project) -> None:
    chunked(project)
    assert run_backfill(project).state is BackfillState.NO_SNAPSHOT
    project.tables = {TABLE: {"snapshot": "full"}}
    project.source.execute(
        "EXEC sandbox.fault @kind = N'error', @table = N'dbo.items', @rows = 1, @times = 9,"
        f" @number = 50000, @text = N'x', @login = N'{project.source.server.reader_login}'"
    )
    assert sync(project.database()).failed
    project.source.execute("EXEC sandbox.clear_faults")
    project.tables = {TABLE: {"snapshot": "chunked"}}
    with pytest.raises(SnapshotModeError, match="snapshot: full` and run cdc-assets sync"):
        run_backfill(project)
    (failed,) = sync(project.database()).failed
    assert isinstance(failed.error, SnapshotModeError)
    # Once cleanup has passed its S it counts no more.
    change_items(project.source)
    clean_up(project.source)
    change_items(project.source, base=300)
    assert run_sync(project).outcomes[TABLE].work is Work.OPENED
    project.extra["defaults"] = {"min_headroom_hours": 0}
    assert run_backfill(project).done
    assert_complete(project)


def test_names_of_any_kind(project: Project) -> None:
    """B072: what a call finds of the one before goes by ids, whatever the table is called."""
    source = project.source
    source.execute("CREATE TABLE dbo.[my.ta]]ble] (id int NOT NULL PRIMARY KEY, [a b] int NULL)")
    source.execute(*(f"INSERT INTO dbo.[my.ta]]ble] VALUES ({i}, {i})" for i in range(1, 7)))
    source.enable("my.ta]ble", instance="o'clock")
    settings = {"snapshot": "chunked", "chunk_rows": 2, "capture_instance": "o'clock"}
    project.tables = {TABLE: settings}
    project.extra = {"num_partitions": 1}
    run_sync(project)
    for chunks in (1, 2, 3):
        assert run_backfill(project, max_waves=1).chunks_done == chunks
    assert run_backfill(project).done
    load(project)
    assert project.silver(TABLE, ["id", "a b"]) == [(i, i) for i in range(1, 7)]


def test_silver_keeps_its_key_while_one_is_open(project: Project) -> None:
    """It is the last complete snapshot's state; another unique index is the open one's."""
    source = project.source
    source.execute("CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, name nvarchar(20))")
    source.execute(*(f"INSERT INTO dbo.items VALUES ({i}, N'n')" for i in range(1, 5)))
    source.enable("items")
    project.tables = {TABLE: {"chunk_rows": 2}}
    load(project)
    source.execute(
        "ALTER TABLE dbo.items ADD code int NOT NULL DEFAULT 0",
        "UPDATE dbo.items SET code = id",
        "CREATE UNIQUE INDEX ux ON dbo.items (code)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'items',"
        " @capture_instance = N'items2', @role_name = NULL, @index_name = N'ux',"
        " @supports_net_changes = 0",
        f"GRANT SELECT ON cdc.[items2_CT] TO [{source.server.reader_login}]",
        "UPDATE dbo.items SET name = N'a' WHERE id = 1",
    )
    source.captured()
    run_sync(project)
    project.tables[TABLE]["snapshot"] = "chunked"
    assert sync(project.database(), resnapshot=True).outcomes[TABLE].work is Work.OPENED
    assert events(project, Event.SNAPSHOT_OPEN)[-1].payload["keys"] == ["code"]
    assert not apply_changes(project.database(), TABLE).rebuilt
    project.assert_identical(TABLE, ("id", "name"))
    assert run_backfill(project).done
    assert apply_changes(project.database(), TABLE).rebuilt
    project.assert_identical(TABLE, ("id", "name", "code"))


def test_an_empty_table(project: Project) -> None:
    """One chunk without rows, in a wave of its own; silver is there, and empty."""
    chunked(project, rows=0)
    run_sync(project)
    done = run_backfill(project)
    assert (done.done, done.chunks_total, done.rows) == (True, 1, 0)
    project.source.execute("INSERT INTO dbo.items (id, name) VALUES (1, N'first')")
    project.source.captured()
    assert_complete(project)


def test_what_it_is_cut_on_changes_in_the_middle(project: Project) -> None:
    """B073: bounds of one order would leave rows of another one out; a longer text has the same."""
    source = project.source
    source.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, n int,"
        " w varchar(20) COLLATE Latin1_General_CI_AS)"
    )
    words = ("apple", "Banana", "cherry", "Date", "elder", "Zebra")
    source.execute(
        *(f"INSERT INTO dbo.items VALUES ({i}, {i}, '{w}')" for i, w in enumerate(words))
    )
    source.enable("items")
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 2, "chunk_column": "w"}}
    project.extra = {"num_partitions": 1}
    run_sync(project)
    run_backfill(project, max_waves=1)
    alter = "ALTER TABLE dbo.items ALTER COLUMN w varchar(20) COLLATE Latin1_General_"
    source.execute(alter + "BIN")
    with pytest.raises(SchemaChangedError, match=r"cut on w as varchar\(20\) COLLATE Latin1_Gen"):
        run_backfill(project)
    source.execute(
        alter.replace("20", "30") + "CI_AS", "ALTER TABLE dbo.items ALTER COLUMN n bigint"
    )
    with pytest.raises(SchemaChangedError, match="n is BIGINT at the source now"):
        run_backfill(project)
    assert len(project.bronze(TABLE)) == 2
    source.execute("ALTER TABLE dbo.items ALTER COLUMN n int")
    assert run_backfill(project).done
    load(project)
    project.assert_identical(TABLE, ("id", "n", "w"))
