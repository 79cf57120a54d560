"""Streams of tables that no settings know: their checkpoints, their ids, their way out.

Nothing but the checkpoint and the facts knows where such a stream was.
"""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.errors import (
    CdcError,
    CheckpointError,
    DataLossError,
    SettingsError,
    SnapshotModeError,
    TableReplacedError,
)
from cdc_assets.ingest.stream import NewGenerationWarning
from cdc_assets.lsn import Lsn
from cdc_assets.names import Command
from cdc_assets_tests.path.copying import copy_of
from cdc_assets_tests.path.helpers import change_items, load, purge
from cdc_assets_tests.path.streaming import NOW, finish, options, run_stream, session, stream
from cdc_assets_tests.path.test_quiet_week import forget_the_log
from cdc_assets_tests.source import Project

pytestmark = [pytest.mark.spark, pytest.mark.sqlserver]
TABLE = "dbo_items"
APP = "items-stream"


@pytest.fixture
def engine_name() -> str:
    """A micro-batch is appended by an engine as a sync's batch is; one test asks Spark."""
    return "arrow"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "own" / "items"


def own_stream(items: Project, target: Path, checkpoint: Path, **more: Any) -> Any:
    """A stream of a table that is in no settings, until all is read."""
    given = more.pop("given", {})
    own = stream(items, **options(items, **given))
    return finish(own.to_delta(str(target), APP, str(checkpoint), trigger=NOW, **more))


def bronze_of(target: Path) -> list[dict[str, Any]]:
    """Its change rows."""
    rows = DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["_operation"]]


def own_lake(items: Project, target: Path) -> Any:
    """Its bookkeeping."""
    own = stream(items, **options(items))
    return own._place(own._settings, str(target), APP, None).database.lake


def test_a_table_that_no_settings_know(items: Project, tmp_path: Path, checkpoint: Path) -> None:
    """B025: a checkpoint that is lost, or set back, is an error that says what to do."""
    target = tmp_path / "own" / "items"
    first = own_stream(items, target, checkpoint, bootstrap=True).generation
    change_items(items.source)
    own_stream(items, target, checkpoint)
    shutil.copytree(checkpoint, older := checkpoint.with_name("older"))
    own = stream(items, **options(items))
    assert own.snapshot(str(target), APP) == first.start
    change_items(items.source, 300)
    own_stream(items, target, checkpoint)
    lake = own_lake(items, target)
    assert [row.rows for row in lake.facts.batches(str(target)) if row.rows] == [13, 11]
    assert lake.control.read()[str(target)].end_lsn == items.source.captured()
    checkpoint.rename(newest := checkpoint.with_name("newest"))
    with pytest.raises(CheckpointError, match=r"not there.*Restore the checkpoint"):
        own_stream(items, target, checkpoint)
    older.rename(checkpoint)
    with pytest.raises(CheckpointError, match=r"set back.*Restore the checkpoint"):
        own_stream(items, target, checkpoint)
    shutil.rmtree(checkpoint)
    newest.rename(checkpoint)
    purge(items.source)
    with pytest.warns(NewGenerationWarning, match="lost"):
        query = own_stream(items, target, checkpoint, bootstrap=True, on_data_loss="resnapshot")
    assert query.generation.number == 1
    change_items(items.source, 500)
    assert own_stream(items, target, checkpoint).generation.number == 1
    apps = [row.app_id for row in lake.facts.batches(str(target)) if row.rows]
    assert apps == [APP, APP, "items-stream.g1"]


def test_an_own_stream_without_a_snapshot_skips_what_is_lost(
    items: Project, tmp_path: Path, checkpoint: Path
) -> None:
    """B051: from the latest on; a gap is in the facts, and the stream goes on past it."""
    target = tmp_path / "items"
    change_items(items.source)
    given = {"startingLsn": "latest", "failOnDataLoss": "no"}
    own_stream(items, target, checkpoint, given=given)
    lake = own_lake(items, target)
    assert [row for row in lake.facts.batches(str(target)) if row.rows] == []
    purge(items.source)
    assert own_stream(items, target, checkpoint, given=given).generation.number == 0
    left = items.source.rows("SELECT COUNT(*) FROM cdc.dbo_items_CT")[0][0]
    assert [row.rows for row in lake.facts.batches(str(target)) if row.rows] == [left]
    assert [row.event for row in lake.facts.events()] == ["data_skipped"]
    with pytest.raises(SettingsError, match="began with a snapshot"):
        own_stream(items, target, checkpoint, on_data_loss="resnapshot")


def test_the_bronze_of_a_sync_is_no_target_of_an_own_stream(
    items: Project, checkpoint: Path
) -> None:
    load(items)
    change_items(items.source)
    load(items)
    bronze = items.database().table(TABLE).bronze_uri
    with pytest.raises(SettingsError, match="bronze of the table dbo_items"):
        own_stream(items, Path(bronze), checkpoint)
    with pytest.raises(SettingsError, match="not where the settings have it"):
        run_stream(items, checkpoint, target="elsewhere")


@pytest.mark.sandbox
def test_batches_that_only_their_rows_tell_of(
    items: Project, target: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """The facts are put back from a copy, and the log has forgotten: no batch is another's.

    Neither are those of two generations one, though each has a transaction id of its own, nor is
    the stream at a loss for what nobody else can have written.
    """
    facts = target.with_name("items_cdc")
    own_stream(items, target, checkpoint, bootstrap=True)
    shutil.copytree(facts, before := tmp_path / "before")
    for base in (100, 300):
        change_items(items.source, base)
        own_stream(items, target, checkpoint)
    shutil.rmtree(facts / "facts")
    shutil.copytree(before / "facts", facts / "facts")
    purge(items.source)
    with pytest.warns(NewGenerationWarning, match="lost"):
        own_stream(items, target, checkpoint, bootstrap=True, on_data_loss="resnapshot")
    shutil.copytree(facts / "facts", healed := tmp_path / "healed")
    for base in (500, 700):
        change_items(items.source, base)
        own_stream(items, target, checkpoint)
    shutil.rmtree(facts / "facts")
    shutil.copytree(healed, facts / "facts")
    forget_the_log(str(target))
    change_items(items.source, 1100)
    assert own_stream(items, target, checkpoint).generation.number == 1
    told = [row for row in own_lake(items, target).facts.batches(str(target)) if row.rows]
    assert [(row.app_id, row.batch_id, row.rows) for row in told] == [
        (APP, 1, 13),
        (APP, 2, 11),
        (f"{APP}.g1", 3, 11),
        (f"{APP}.g1", 4, 11),
        (f"{APP}.g1", 5, 11),
    ]
    assert sorted(row.min_lsn or "" for row in told) == [row.min_lsn for row in told]


def test_a_checkpoint_from_before_a_generation_is_refused(
    items: Project, target: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """B025: the snapshot that it does not know began a generation, which has written since."""
    own_stream(items, target, checkpoint, bootstrap=True)
    shutil.copytree(checkpoint, older := tmp_path / "older")
    purge(items.source)
    with pytest.warns(NewGenerationWarning, match="lost"):
        own_stream(items, target, checkpoint, bootstrap=True, on_data_loss="resnapshot")
    change_items(items.source, 300)
    own_stream(items, target, checkpoint)
    shutil.rmtree(checkpoint)
    older.rename(checkpoint)
    with pytest.raises(CheckpointError, match=r"no generation 1.*set back.*another app_id"):
        own_stream(items, target, checkpoint)
    change_items(items.source, 500)
    other = stream(items, **options(items)).to_delta(
        str(target), "another", str(tmp_path / "new"), trigger=NOW
    )
    assert finish(other).generation.number == 0
    rows = bronze_of(target)
    assert len(rows) == len({(r["_start_lsn"], r["_seqval"], r["_operation"]) for r in rows})
    assert {row["id"] for row in rows} >= {300, 500}


def test_the_calls_that_errors_name_are_there(
    items: Project, target: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """No command line knows the table: what a person is told to run is run here as it is told."""
    own = stream(items, **options(items))
    chunked = {"bootstrap": True, "snapshot": "chunked", "on_data_loss": "resnapshot"}
    own_stream(items, target, checkpoint, **chunked)
    with pytest.raises(SnapshotModeError) as refused:
        own.snapshot(str(target), APP, resnapshot=True)
    assert called(own, refused.value).done
    purge(items.source)
    with pytest.warns(NewGenerationWarning, match="lost"):
        own_stream(items, target, checkpoint, **chunked)
    purge(items.source, 1100)
    with pytest.raises(DataLossError) as lost:
        own.backfill(str(target), APP)
    assert called(own, lost.value) == own.snapshot(str(target), APP)
    with pytest.warns(NewGenerationWarning, match="lost"):
        assert own_stream(items, target, checkpoint).generation.number == 2
    shutil.rmtree(target)
    with pytest.raises(TableReplacedError, match="another target, app_id and checkpoint"):
        own_stream(items, target, checkpoint)
    again = own.to_delta(
        str(tmp_path / "again"), "again", str(tmp_path / "new"), trigger=NOW, bootstrap=True
    )
    assert finish(again).generation.number == 0


def called(stream: Any, error: CdcError) -> Any:
    """What the call gives that an error's hint names."""
    found = re.search(r"stream\.\w+\(.*?\)", error.hint or "")
    assert found is not None, error
    return eval(found.group())


def test_each_command_is_a_call_of_the_stream(items: Project, target: Path) -> None:
    own = stream(items, **options(items))
    table = own._place(own._settings, str(target), APP, None).database.table(APP)
    for command in Command:
        assert "cdc-assets" not in table.command(command)
        name, _, arguments = table.command(command).removeprefix("stream.").partition("(")
        method = getattr(own, name.split()[0])
        if arguments:
            call = f"signature({arguments}"
            eval(call, {"signature": inspect.signature(method).bind, "copy": None, "as_of": ""})


def test_a_copy_that_a_stream_goes_on_from(items: Project, target: Path, checkpoint: Path) -> None:
    """A data frame is the first snapshot, and the changes after it are the stream's."""
    items.source.execute("UPDATE dbo.items SET note = 'x' WHERE id = 1")
    at = Lsn(items.source.captured())
    frame = session().createDataFrame(copy_of(items.source))
    copy = frame.withColumn("at", frame["at"].cast("timestamp_ntz"))
    own = stream(items, **options(items))
    assert own.seed(copy, at, str(target), APP).lsn == at
    change_items(items.source)
    own_stream(items, target, checkpoint)
    rows = DeltaTable(str(target)).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows if row["_operation"] == 0) == [1, 2, 3, 4, 5]
    changed = [row for row in rows if row["_operation"]]
    assert len(changed) == 13
    assert all(row["_start_lsn"] > str(at) for row in changed)
    other = stream(items, **options(items, captureInstance=TABLE.upper()))
    assert other.snapshot(str(target), APP).lsn == at, "the instance's name ignores case"
