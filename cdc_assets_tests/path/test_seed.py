"""A copy that already exists becomes a table's first snapshot, and its changes go on from there."""

import os
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_assets.contract import Column, bronze_columns
from cdc_assets.engines import copies
from cdc_assets.engines.arrow.appending import append_rows
from cdc_assets.errors import (
    CdcError,
    SeedOpenError,
    SeedRefusedError,
    TableReplacedError,
    UnsupportedColumnError,
)
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import seeding
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.plans import AppendResult
from cdc_assets_tests.path.copying import (
    ARROW,
    TABLE,
    begun,
    copy_of,
    items,
    newest_lsn,
    now,
)
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.source import Project

__all__ = ["items"]


def test_a_copy_is_the_snapshot_and_changes_go_on(items: Project) -> None:
    """Nothing of the table is read; what the copy saw of later commits only repeats."""
    items.source.execute("UPDATE dbo.items SET note = 'x' WHERE id = 5")
    newest = newest_lsn(items.source)
    copy, started = begun(items)
    if items.source.server.is_sandbox:
        items.source.counters()
    outcome = seed(items.database(), TABLE, copy, started)
    assert (outcome.work, outcome.rows) == (Work.SNAPSHOT, copy.num_rows)
    if items.source.server.is_sandbox:
        assert items.source.counters().rows_of("items") == 0
    assert outcome.end is not None
    assert outcome.end.lsn > newest
    assert outcome.end.commit_ts <= datetime.fromisoformat(started)
    rows = items.bronze(TABLE)
    assert {(r["_operation"], r["_snapshot"]) for r in rows} == {(0, str(outcome.end.lsn))}
    assert load(items)[0].work is Work.CHANGES
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    facts = items.database().lake.facts
    assert [row.event for row in facts.events()] == ["snapshot_open", "bootstrap"]
    change_items(items.source, base=500)
    outcome, applied = load(items)
    assert not applied.rebuilt
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_an_lsn_recorded_before_the_copy(items: Project) -> None:
    change_items(items.source)
    lsn = newest_lsn(items.source)
    items.source.execute("DELETE FROM dbo.items WHERE id = 2")
    copy = copy_of(items.source)
    change_items(items.source, base=300)
    outcome = seed(items.database(), TABLE, copy, lsn)
    assert outcome.end is not None
    assert outcome.end.lsn == lsn
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_a_rerun_finds_what_is_there(items: Project) -> None:
    copy, started = begun(items)
    first = seed(items.database(), TABLE, copy, started)
    load(items)
    rows = len(items.bronze(TABLE))
    again = seed(items.database(), TABLE, copy, started)
    assert (again.work, again.end, again.rows) == (Work.QUIET, first.end, first.rows)
    assert len(items.bronze(TABLE)) == rows
    with pytest.raises(SeedRefusedError, match=f"has a snapshot at .* as of {started[:10]}"):
        seed(items.database(), TABLE, copy, now(items.source))


@ARROW
def test_a_table_with_a_snapshot_is_refused(items: Project) -> None:
    copy, started = begun(items)
    load(items)
    before = len(items.bronze(TABLE))
    with pytest.raises(SeedRefusedError, match="cdc-assets reset sales dbo_items"):
        seed(items.database(), TABLE, copy, started)
    assert len(items.bronze(TABLE)) == before


@ARROW
def test_after_a_reset_the_same_copy_may_come_again(items: Project) -> None:
    """Its LSN was used; the rows are not taken for those that were given up."""
    copy, started = begun(items)
    first = seed(items.database(), TABLE, copy, started)
    load(items)
    reset(items.database(), TABLE)
    second = seed(items.database(), TABLE, copy, started)
    assert first.end is not None
    assert second.end is not None
    assert (second.rows, second.end.lsn < first.end.lsn) == (first.rows, True)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


def without(copy: pa.Table) -> pa.Table:
    return copy.drop_columns(["note"])


def as_text(copy: pa.Table) -> pa.Table:
    return copy.set_column(0, "id", copy["id"].cast(pa.string()))


REFUSED = {
    "a column lacks": (without, "", "has not one column note"),
    "another type": (as_text, "", "column id is string in the copy, and int in the table"),
    "to come": (None, "2999-01-01T00:00:00", "is in the future"),
    "above": (None, "0xFFFFFFFFFFFFFFFFFFFF", "is above the newest LSN"),
    "neither": (None, "soon", "neither a time nor an LSN"),
}


@ARROW
@pytest.mark.parametrize(("change", "as_of", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_writes_nothing(
    items: Project, change: object, as_of: str, said: str
) -> None:
    copy, started = begun(items)
    given = change(copy) if callable(change) else copy
    with pytest.raises(SeedRefusedError, match=said):
        seed(items.database(), TABLE, given, as_of or started)
    assert not (items.folder / "lake").exists()


@ARROW
def test_a_value_that_does_not_fit_commits_no_row(
    items: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Met on the way, the snapshot is open: the same call with a mended copy goes on."""
    copy, started = begun(items)
    prices = pa.array([*copy["price"].to_pylist()[:-1], Decimal("0.12345")])
    broken = copy.set_column(2, "price", prices)
    with pytest.raises(SeedRefusedError, match="column price has a value that DECIMAL"):
        seed(items.database(), TABLE, broken, started)
    assert not (items.folder / "lake").exists()
    monkeypatch.setattr(copies, "TRIAL_ROWS_MAX", 1)
    with pytest.raises(SeedRefusedError, match=r"seed a mended copy.*cdc-assets reset sales dbo_"):
        seed(items.database(), TABLE, broken, started)
    assert items.bronze(TABLE) == []
    (error,) = [outcome.error for outcome in sync(items.database()).failed]
    assert isinstance(error, SeedOpenError)
    seed(items.database(), TABLE, copy, started)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
def test_keys_are_written_as_the_server_writes_them(project: Project) -> None:
    """Trimmed, as text of another width, as plain integers: else a row would be there twice."""
    source = project.source
    source.execute(
        "CREATE TABLE dbo.items (c char(5) NOT NULL, n nchar(3) NOT NULL, b binary(3) NOT NULL,"
        " t time(3) NOT NULL, d numeric(10,0) NOT NULL, v int, PRIMARY KEY (c, n, b, t, d))",
        "INSERT dbo.items VALUES ('a', N'é', 0x01, '10:00:00', 1, 0),"
        " ('b', N'😀', 0x02, '11:00:00', 2, 0)",
    )
    source.enable("items")
    source.execute("UPDATE dbo.items SET v = 1")
    project.tables = {TABLE: None}
    copy = pa.table(
        {
            "c": ["a", "b"],
            "n": ["é", "😀"],
            "b": [b"\1", b"\2"],
            "t": ["10:00:00", "11:00:00.0000000"],
            "d": [1, 2],
            "v": [1, 1],
        }
    )
    seed(project.database(), TABLE, copy, newest_lsn(source))
    source.execute("UPDATE dbo.items SET v = 2 WHERE c = 'a'", "DELETE dbo.items WHERE c = 'b'")
    source.captured()
    load(project)
    project.assert_identical(TABLE, ("c", "n", "b", "d", "v"))
    assert project.silver(TABLE, ["t"]) == [("10:00:00.000",)]


@ARROW
def test_a_column_that_the_table_has_no_more_is_not_asked_for(items: Project) -> None:
    """Also not where another has its name now: no change would ever correct its values."""
    copy, _ = begun(items)
    items.source.execute("ALTER TABLE dbo.items DROP COLUMN note")
    items.source.execute("UPDATE dbo.items SET name = N'x' WHERE id = 1")
    lsn, copy = newest_lsn(items.source), copy_of(items.source, "CAST('re-added' AS varchar(9))")
    seed(items.database(), TABLE, copy, lsn)
    assert {row["note"] for row in items.bronze(TABLE)} == {None}
    reset(items.database(), TABLE)
    seed(items.database(), TABLE, copy.drop_columns(["note"]), lsn)
    load(items)
    items.assert_identical(TABLE, ("id", "name", "price", "at"))


@ARROW
def test_a_reset_while_a_copy_is_written(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows never reach the table that took bronze's place."""
    copy, started = begun(items)

    def after_a_reset(*arguments: Any) -> AppendResult:
        reset(items.database(), TABLE)
        items.source.execute("UPDATE dbo.items SET name = N'later' WHERE id = 1")
        items.source.captured()
        run_sync(items)
        return append_rows(*arguments)

    monkeypatch.setattr(seeding, "append_rows", after_a_reset)
    with pytest.raises(TableReplacedError, match="nothing was written"):
        seed(items.database(), TABLE, copy, started)
    monkeypatch.undo()
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@ARROW
def test_a_bronze_that_only_spark_may_write_is_refused(items: Project) -> None:
    """One that maps columns, and lacks some of the table's."""
    copy, started = begun(items)
    database = items.database()
    odd = bronze_columns((Column("id", "INT"), Column("unit price", "INT")))
    bronze = database.lake.ensure_bronze(database.table(TABLE), odd)
    with pytest.raises(UnsupportedColumnError, match=r"cannot add the column 'name'.*a sync read"):
        seed(database, TABLE, copy, started)
    before = bronze.version()
    bronze.update_incremental()
    assert bronze.version() == before
    assert database.lake.facts.events() == []


POINTS = (
    FaultPoint.SNAPSHOT_OPENED,
    FaultPoint.SNAPSHOT_APPENDED,
    FaultPoint.FACTS_WRITTEN,
)


@ARROW
@pytest.mark.parametrize("point", POINTS)
def test_killed_and_run_again(items: Project, point: FaultPoint, tmp_path: Path) -> None:
    """A sync in between leaves a copy that has no rows yet alone, and finishes one that has."""
    copy, started = begun(items)
    pq.write_table(copy, tmp_path / "copy.parquet")
    options = (TABLE, str(tmp_path / "copy.parquet"), "--as-of", started)
    kill_at(items, point, tmp_path / "reached", *options, command="seed")
    failed: list[CdcError | None] = [o.error for o in sync(items.database()).failed]
    assert [type(e) for e in failed] == [SeedOpenError] * (point is FaultPoint.SNAPSHOT_OPENED)
    done = run(items, "seed", items.key, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{copy.num_rows} rows; its changes start after 0x" in done.stdout
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)
    events = [row.event for row in items.database().lake.facts.events()]
    assert events == ["snapshot_open", "bootstrap"]


def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from cdc_assets.cli import main; main()", *arguments],
        env={**os.environ, "CDC_TABLES": str(project.write())},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
