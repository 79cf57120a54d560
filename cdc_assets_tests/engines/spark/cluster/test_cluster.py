"""The engine where tasks run in other processes, over Spark Connect and on a standalone master.

What `local[2]` tests already is not tested again: here is what differs without a shared Python,
and without a JVM in this process.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.contract import BRONZE, Column, bronze_columns
from cdc_assets.engines.spark.config import SessionConfig
from cdc_assets.engines.spark.files import FILES_FORMAT
from cdc_assets.engines.spark.session import new_session, work_session
from cdc_assets.errors import DataLossError, SettingsError
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.tables import delta_schema, query
from cdc_assets.planning.plans import AppendPlan, CommitTag, ReadRange
from cdc_assets.settings.model import SparkSettings
from cdc_assets.silver.by_name import apply_changes
from cdc_assets.sqlserver.connection import SourceConnection
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError
from cdc_assets_tests.engines.spark.cluster.conftest import CONNECT
from cdc_assets_tests.engines.spark.helpers import (
    CANARY,
    CAPTURED,
    LiteralEngine,
    Tables,
    lsn,
    read,
)
from cdc_assets_tests.path.applying import TABLE as ITEMS
from cdc_assets_tests.path.applying import apply_places
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load, run_sync
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.cluster
ONLY_CONNECT = pytest.mark.parametrize("spark", [CONNECT], indirect=True)
FIRST, SECOND = ReadRange("first"), ReadRange("second")
MEETING_SECONDS_MAX = 60.0
TABLE = "dbo_large"


def test_a_table_arrives(source: Source, spark: SparkSettings, tmp_path: Path) -> None:
    """Snapshot, changes and silver; the snapshot has a value above the buffer begun with."""
    source.execute(
        "CREATE TABLE dbo.large (id int NOT NULL PRIMARY KEY, v varchar(max) NULL)",
        "INSERT INTO dbo.large VALUES (1, REPLICATE(CAST('x' AS varchar(max)), 70000)), (2, 'a'),"
        " (3, N'ü')",
    )
    source.enable("large")
    project = Project(tmp_path, source, "spark", {TABLE: None})
    project.extra = {"spark": {"master": spark.master, "conf": spark.conf}}
    run_sync(project)
    source.execute(
        "INSERT INTO dbo.large VALUES (4, 'd')",
        "UPDATE dbo.large SET v = 'b' WHERE id = 2",
        "DELETE FROM dbo.large WHERE id = 3",
    )
    source.captured()

    load(project, TABLE)

    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, ("id", "v"))
    (batch,) = project.database().lake.facts.batches(f"bronze/{TABLE}")
    assert str(batch.engine).startswith("spark")
    assert (batch.read_seconds or 0) > 0
    assert (batch.read_mb or 0) > 0


@ONLY_CONNECT
def test_the_public_apply_works_in_a_connect_session(
    source: Source, spark: SparkSettings, tmp_path: Path
) -> None:
    """Where tables are, as the catalog's names, and with waves of an open snapshot."""
    create_items(source)
    project = Project(tmp_path, source, "arrow", {ITEMS: None})
    run_sync(project)
    session = new_session(SessionConfig.of(spark))
    lake = tmp_path / "lake" / project.key
    assert apply_places(session, lake)["rows_upserted"] == 5
    change_items(source)
    run_sync(project)
    applied = apply_places(session, lake)
    assert (applied["rebuilt"], applied["overtaken"]) == (False, False)
    project.assert_identical(ITEMS, COLUMNS)
    session.sql(f"CREATE TABLE bronze_items USING delta LOCATION '{lake}/bronze/{ITEMS}'")
    try:
        named = apply_changes(
            session,
            "bronze_items",
            "silver_items",
            capture_instance=ITEMS,
            control_table=f"{lake}/_cdc/control",
            facts_table=f"{lake}/_cdc/facts",
        )
        assert named["rebuilt"]
        found = session.sql("SELECT id FROM silver_items").collect()
        assert {(row.id,) for row in found} == set(project.silver(ITEMS, ["id"]))
    finally:
        session.sql("DROP TABLE IF EXISTS silver_items")
        session.sql("DROP TABLE IF EXISTS bronze_items")


def test_tasks_share_nothing_with_this_process(
    engine: LiteralEngine, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two tasks waits for the other: so they run at once, where there is room for one."""
    monkeypatch.setattr(sys, "cdc_marker", "set here", raising=False)

    def meet(_: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        (tmp_path / f"{planned.text} is here").touch()
        other = tmp_path / f"{'second' if planned.text == 'first' else 'first'} is here"
        deadline = time.monotonic() + MEETING_SECONDS_MAX
        while not other.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        told = f"{os.getpid()} {os.getppid()} {getattr(sys, 'cdc_marker', 'not set')}"
        yield tables.changes((1, 2, {"id": size, "name": told}))

    engine.read = meet
    result = engine.append(tables.append_plan(1, FIRST, SECOND))

    assert result.rows == 2
    told = [str(row["name"]).split(maxsplit=2) for row in read(tables.bronze)]
    processes = {int(pid) for pid, _, _ in told}
    assert len(processes) == 2
    assert not {os.getpid()} & {int(number) for row in told for number in row[:2]}
    assert {marker for _, _, marker in told} == {"not set"}
    if not engine._config.is_connect:
        assert len({parent for _, parent, _ in told}) == 2, "both workers had a task"


def test_errors_of_tasks_arrive_typed_and_nothing_is_committed(
    engine: LiteralEngine, tables: Tables
) -> None:
    what = "5 rows gave 4 of `näme`" + "!" * 4000
    error = DataLossError(what, where="shop", hint='Take a "new" snapshot.')
    rows = tables.changes((1, 2, {"id": 1, "name": "a"}))

    def fail(_: SourceConnection, planned: ReadRange, size: int) -> Iterator[pa.RecordBatch]:
        yield rows
        if size < 100_000:
            raise ValueTooLargeError("a value is too large")
        raise error

    engine.read = fail
    with pytest.raises(DataLossError) as caught:
        engine.append(tables.append_plan(1, FIRST))
    assert str(caught.value) == str(error)
    assert DeltaTable(tables.bronze).version() == 0
    assert list(Path(tables.bronze).glob("*.parquet")) == []


def test_rows_that_deltas_library_writes(engine: LiteralEngine, tmp_path: Path) -> None:
    """A new column of a table that maps its columns: no file of ours, and no accumulator."""
    before = (*CAPTURED, Column("unit price", "STRING"))
    tables = Tables(tmp_path, columns=(*before, Column("it's new", "STRING")))
    ensure_table(tables.bronze, BRONZE, {}, bronze_columns(before))
    batch = tables.changes((1, 2, {"id": 1, "name": "a", "it's new": "b"}))
    given = [name for name in batch.schema.names if name != "_capture_instance"]
    engine.read = lambda source, planned, size: iter([batch.select(given)])
    name = "dbo_it's \\ ü"
    constants = (("_capture_instance", name),)
    ranges = (ReadRange("first", constants=constants, names=tuple(given)),)
    columns, tag = bronze_columns(tables.columns), CommitTag("t#changes", 1, "batch 1")
    plan = AppendPlan("t", tables.bronze, columns, ranges, tag)

    result = engine.append(plan)

    assert (result.committed, result.rows) == (True, 1)
    assert result.read_seconds > 0
    assert result.read_mb > 0
    (row,) = query("SELECT * FROM b", b=DeltaTable(tables.bronze)).to_pylist()
    assert (row["it's new"], row["_capture_instance"]) == ("b", name)
    assert not engine.append(plan).committed


def test_tables_applied_at_once_keep_their_own_transactions(
    engine: LiteralEngine, tmp_path: Path
) -> None:
    """Each thread's MERGE has session settings of its own; the second adds a column."""
    every = [Tables(tmp_path / str(n)).create() for n in range(2)]
    wider = replace(every[1], columns=(*CAPTURED, Column("note", "STRING")))
    DeltaTable.create(every[1].bronze, delta_schema(bronze_columns(wider.columns)), "overwrite")
    every[1] = wider
    for n, tables in enumerate(every):
        tables.write(tables.changes((1, 2, {"id": n, "name": "a"}), (2, 4, {"id": n, "name": "b"})))
    results = {}

    def work(n: int) -> None:
        results[n] = engine.apply(every[n].apply_plan(1, metadata=f"of {n}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for n, tables in enumerate(every):
        assert (results[n].overtaken, results[n].upserted) == (False, 1)
        table = DeltaTable(tables.silver)
        assert table.transaction_version("t#apply") == 1
        assert table.history(1)[0]["userMetadata"] == f"of {n}"
        assert [row["name"] for row in read(tables.silver)] == ["b"]
    assert "note" in {field.name for field in DeltaTable(wider.silver).schema().fields}


@ONLY_CONNECT
def test_a_lost_conflict_is_told_from_other_failures(engine: LiteralEngine, tables: Tables) -> None:
    """The ranking tells that it runs, inside the MERGE, and then sleeps."""
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))
    signal = f"overtaken.{tables.root.name}"
    slow = (
        f"coalesce(reflect('java.lang.System', 'setProperty', '{signal}', 'x'), '') <> 'no'"
        " AND coalesce(reflect('java.lang.Thread', 'sleep', 3000L), '') <> 'no'"
    )
    asked = f"SELECT reflect('java.lang.System', 'getProperty', '{signal}') AS said"

    def other() -> None:
        deadline = time.monotonic() + MEETING_SECONDS_MAX
        with work_session(engine._config) as session:
            while session.sql(asked).first()["said"] != "x" and time.monotonic() < deadline:
                time.sleep(0.05)
        tables.commit_elsewhere(tables.silver, "t#apply", 1, "another call")

    thread = threading.Thread(target=other)
    thread.start()
    rows = f"`_start_lsn` > '{lsn(0)}' AND {slow}"
    result = engine.apply(tables.apply_plan(1, rows, rebuild=True))
    thread.join()

    assert result.overtaken
    assert read(tables.silver) == []
    assert DeltaTable(tables.silver).history(1)[0]["userMetadata"] == "another call"


@ONLY_CONNECT
def test_the_server_shows_no_secret(
    engine: LiteralEngine, tables: Tables, spark: SparkSettings, events: Path
) -> None:
    """Neither the source's connection, which tasks get, nor the lake's, which sessions get."""
    batch = tables.changes((1, 2, {"id": 1, "name": "a"}))
    engine.read = lambda source, planned, size: iter([batch] if CANARY in source.text else ())
    assert engine.append(tables.append_plan(1, FIRST)).rows == 1
    lake = SessionConfig(spark.master, storage=(("fs.s3a.secret.key", CANARY),))
    with work_session(lake) as session:
        assert session.conf.get("fs.s3a.secret.key") == CANARY
        assert session.sql("SELECT 'seen' AS a").collect()

    shown = SessionConfig(spark.master, storage=(("fs.azure.account.key.x", CANARY),))
    with pytest.raises(SettingsError, match=r"would show fs.azure.account.key.x.*redaction.regex"):
        new_session(shown)
    written = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
    assert FILES_FORMAT in written
    assert "SparkListenerConnectOperationStarted" in written
    assert CANARY not in written


@ONLY_CONNECT
def test_a_setting_of_the_servers_own_is_refused_by_name(spark: SparkSettings) -> None:
    config = SessionConfig(spark.master, (("spark.driver.memory", "8g"),))
    with pytest.raises(SettingsError, match=r"lets no session set spark.driver.memory"):
        new_session(config)
