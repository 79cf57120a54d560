"""Changes that cleanup removed before they were read, under each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from cdc_assets.clock import utc_now
from cdc_assets.contract import Event, Operation
from cdc_assets.errors import DataLossError, SettingsError
from cdc_assets.finality import verdict
from cdc_assets.ingest import snapshot as snapshot_module
from cdc_assets.ingest import waiting as waiting_module
from cdc_assets.ingest.losses import acknowledge
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.losses import may_resnapshot
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load, run_sync, set_clock
from cdc_assets_tests.path.verdicts import assert_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


def lose(items: Project) -> None:
    """A loaded table whose changes are purged unread, among them a delete and a key update."""
    load(items)
    items.source.execute("UPDATE dbo.items SET name = N'lost' WHERE id = 5")
    change_items(items.source)
    newest = items.source.captured()
    clean_up(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    items.source.captured(minimum=newest)


def policy(items: Project, name: str, **more: object) -> None:
    items.extra = {"defaults": {"engine": items.engine, "on_data_loss": name, **more}}


def events(items: Project) -> list[str | None]:
    return [row.event for row in items.database().lake.facts.events()]


@pytest.fixture
def lost(items: Project) -> Project:
    lose(items)
    return items


@ARROW
def test_by_default_nothing_is_written(lost: Project) -> None:
    before, rows = events(lost), len(lost.bronze(TABLE))
    with pytest.raises(DataLossError):
        run_sync(lost)
    assert (events(lost), len(lost.bronze(TABLE))) == (before, rows)


def test_resnapshot_heals(lost: Project) -> None:
    policy(lost, "resnapshot")
    outcome, applied = load(lost)
    assert (outcome.work, applied.rebuilt) == (Work.SNAPSHOT, True)
    lost.assert_identical(TABLE, COLUMNS)
    assert events(lost) == [
        Event.SNAPSHOT_OPEN,
        Event.BOOTSTRAP,
        Event.RECOVERING,
        Event.SNAPSHOT_OPEN,
        Event.RESNAPSHOT,
    ]
    change_items(lost.source, base=500)
    second, applied = load(lost)
    assert (second.work, applied.rebuilt) == (Work.CHANGES, False)
    lost.assert_identical(TABLE, COLUMNS)
    lost.assert_each_change_once(TABLE)


@ARROW
def test_the_gap_stays_told_until_a_person_knows(lost: Project) -> None:
    policy(lost, "resnapshot")
    outcome, _ = load(lost)
    assert outcome.gap is not None
    assert outcome.gap.start < outcome.gap.end
    assert "a new snapshot was taken" in str(outcome.gap)
    assert run_sync(lost).outcomes[TABLE].gap == outcome.gap
    acknowledge(lost.database(), TABLE)
    assert run_sync(lost).outcomes[TABLE].gap is None
    with pytest.raises(SettingsError, match="no gap to acknowledge"):
        acknowledge(lost.database(), TABLE)


@ARROW
def test_a_second_loss_soon_needs_a_person(lost: Project) -> None:
    policy(lost, "resnapshot")
    load(lost)
    change_items(lost.source, base=700)
    newest = lost.source.captured()
    clean_up(lost.source)
    lost.source.execute("UPDATE dbo.items SET name = N'again' WHERE id = 1")
    lost.source.captured(minimum=newest)
    with pytest.raises(DataLossError, match="cdc-assets snapshot sales dbo_items"):
        run_sync(lost)
    policy(lost, "resnapshot", resnapshot_interval_days=0)
    load(lost)
    lost.assert_identical(TABLE, COLUMNS)


@ARROW
def test_skip_goes_on_past_the_gap(lost: Project) -> None:
    policy(lost, "skip")
    outcome = run_sync(lost).outcomes[TABLE]
    assert outcome.work is Work.SKIPPED
    assert outcome.gap is not None
    assert "skipped, as the settings ask" in str(outcome.gap)
    apply_changes(lost.database(), TABLE)
    names = dict(lost.silver(TABLE, ["id", "name"]))
    assert (names[1], names[5]) == ("kept", "näme 5")
    change_items(lost.source, base=500)
    assert run_sync(lost).outcomes[TABLE].work is Work.CHANGES
    assert Counter(events(lost))[Event.DATA_SKIPPED] == 1
    lost.assert_each_change_once(TABLE)


@ARROW
@pytest.mark.sandbox
@pytest.mark.parametrize("name", ["resnapshot", "skip"])
def test_what_is_lost_is_final_in_no_table_that_lacks_it(lost: Project, name: str) -> None:
    """A new snapshot heals silver and not bronze; what is skipped is in neither."""
    policy(lost, name, finality={"granularity": "second"})
    run_sync(lost)
    newest = lost.source.captured()
    # The next second: the one of the last commit is not final yet.
    set_clock(lost, 5)
    try:
        lost.source.execute("UPDATE dbo.items SET name = N'later' WHERE id = 1")
        lost.source.captured(minimum=newest)
        load(lost)
    finally:
        set_clock(lost, 0)
    told = {
        layer: verdict("sales.dbo_items", layer=layer, settings=lost.settings_file)
        for layer in ("bronze", "silver")
    }
    (gap,) = told["bronze"].lost
    assert (told["silver"].lost, told["silver"].hold) == ((gap,) if name == "skip" else (), None)
    until = told["silver"].finalized_until
    assert until is not None
    assert until > gap.end
    assert told["silver"].is_final(until) == (name == "resnapshot")
    assert not told["bronze"].is_final(until, gap.start)
    assert told["bronze"].is_final(until, gap.end + timedelta(milliseconds=1))
    silver = DeltaTable(told["silver"].uri, version=told["silver"].verdict_version)
    assert silver.count() == len(lost.silver(TABLE, ["id"]))


@ARROW
@pytest.mark.parametrize("name", ["resnapshot", "skip"])
def test_a_recreated_instance_is_a_loss_too(items: Project, name: str) -> None:
    """B018, B019: changes between the two instances were never captured."""
    load(items)
    items.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'")
    items.source.execute("UPDATE dbo.items SET name = N'unseen' WHERE id = 2")
    items.source.enable("items")
    items.source.execute("UPDATE dbo.items SET name = N'seen' WHERE id = 1")
    items.source.captured()
    with pytest.raises(DataLossError, match="re-created"):
        run_sync(items)
    policy(items, name)
    load(items)
    if name == "resnapshot":
        items.assert_identical(TABLE, COLUMNS)
    else:
        assert dict(items.silver(TABLE, ["id", "name"]))[2] == "näme 2"
    change_items(items.source, base=800)
    assert load(items)[0].work is Work.CHANGES


@ARROW
@pytest.mark.parametrize("point", ["opened", "read", "recorded"])
def test_a_crash_on_the_way_is_repeated_safely(
    lost: Project, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    policy(lost, "resnapshot")

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    place: dict[str, tuple[object, str]] = {
        "opened": (snapshot_module, "snapshot_plan"),
        "read": (snapshot_module, "completion"),
        "recorded": (Recorder, "record"),
    }
    with monkeypatch.context() as crashing:
        crashing.setattr(*place[point], crash)
        with pytest.raises(KeyboardInterrupt):
            sync(lost.database())
    change_items(lost.source, base=900)
    load(lost)
    load(lost)
    lost.assert_identical(TABLE, COLUMNS)
    lost.assert_each_change_once(TABLE)
    assert Counter(events(lost))[Event.RESNAPSHOT] == 1


@ARROW
def test_a_persons_resnapshot_moves_no_position(items: Project) -> None:
    load(items)
    change_items(items.source)
    report = sync(items.database(), resnapshot=True)
    outcome: TableOutcome = report.outcomes[TABLE]
    assert outcome.error is None
    assert outcome.work is Work.SNAPSHOT
    changes = run_sync(items).outcomes[TABLE]
    assert (changes.work, changes.rows) == (Work.CHANGES, 13)
    assert apply_changes(items.database(), TABLE).rebuilt
    items.assert_identical(TABLE, COLUMNS)
    snapshots = {r["_snapshot"] for r in items.bronze(TABLE) if r["_operation"] == 0}
    assert len(snapshots) == 2
    assert {row["_operation"] for row in items.bronze(TABLE)} == {int(o) for o in Operation}


@ARROW
@pytest.mark.sandbox
def test_a_second_snapshot_waits_for_an_lsn_of_its_own(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first one's LSN its rows would pass for done."""
    load(items)
    wait: Callable[[float], None] = lambda _: items.source.execute(  # noqa: E731
        "EXEC sandbox.capture_now @idle = 1"
    )
    monkeypatch.setattr(waiting_module.time, "sleep", wait)
    report = sync(items.database(), resnapshot=True)
    assert report.outcomes[TABLE].error is None
    assert len({r["_snapshot"] for r in items.bronze(TABLE)}) == 2


@ARROW
@pytest.mark.parametrize("name", ["fail", "resnapshot"])
def test_the_way_out_that_the_error_names_works(lost: Project, name: str) -> None:
    """A person's re-snapshot closes the gap that there is: the position moves with it."""
    policy(lost, name)
    if name == "resnapshot":
        load(lost)
        change_items(lost.source, base=700)
        newest = lost.source.captured()
        clean_up(lost.source)
        lost.source.execute("UPDATE dbo.items SET name = N'again' WHERE id = 1")
        lost.source.captured(minimum=newest)
    with pytest.raises(DataLossError):
        run_sync(lost)
    healed = sync(lost.database(), resnapshot=True).outcomes[TABLE]
    assert (healed.error, healed.work) == (None, Work.SNAPSHOT)
    assert healed.gap is not None
    change_items(lost.source, base=900)
    load(lost)
    lost.assert_identical(TABLE, COLUMNS)
    lost.assert_each_change_once(TABLE)


@ARROW
def test_two_syncs_find_one_loss(
    lost: Project, after_the_poll: Callable[[Callable[[], object]], None]
) -> None:
    """The slower one sees that it is healed, and sends no person to heal it again."""
    policy(lost, "resnapshot")
    after_the_poll(lambda: load(lost))
    assert sync(lost.database()).failed == ()
    assert Counter(events(lost))[Event.RESNAPSHOT] == 1
    change_items(lost.source, base=900)
    load(lost)
    lost.assert_identical(TABLE, COLUMNS)


@ARROW
def test_an_instance_recreated_between_the_poll_and_the_read(
    items: Project, after_the_poll: Callable[[Callable[[], object]], None]
) -> None:
    """History 14; B019: its change table is empty, which is no proof that there was nothing."""
    load(items)
    change_items(items.source)
    before = items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn

    def recreate() -> None:
        items.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'")
        items.source.enable("items")

    after_the_poll(recreate)
    (failed,) = sync(items.database()).failed
    assert isinstance(failed.error, DataLossError)
    assert items.database().lake.control.read()[f"bronze/{TABLE}"].end_lsn == before
    policy(items, "resnapshot")
    load(items)
    assert_right(items, COLUMNS)


@ARROW
@pytest.mark.sandbox
def test_a_resnapshot_that_cannot_be_read_keeps_no_table_from_its_changes(items: Project) -> None:
    load(items)
    change_items(items.source)
    fault = "EXEC sandbox.fault @kind = N'error', @table = N'dbo.items', @times = 50"
    items.source.execute(f"{fault}, @number = 50000, @text = N'no'")
    assert sync(items.database(), resnapshot=True).failed != ()
    outcome = run_sync(items).outcomes[TABLE]
    assert (outcome.work, outcome.rows) == (Work.CHANGES, 13)
    assert "could not be read" in outcome.warnings[0]
    items.source.execute("EXEC sandbox.clear_faults")
    assert run_sync(items).outcomes[TABLE].work is Work.SNAPSHOT
    change_items(items.source, base=900)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


def test_the_interval_counts_from_the_last_one() -> None:
    now = utc_now()
    assert may_resnapshot(now - timedelta(days=8), now, 7)
    assert not may_resnapshot(now - timedelta(days=6), now, 7)
    assert may_resnapshot(now, now, 0)
