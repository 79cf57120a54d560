"""An apply is one MERGE of the latest images, with its transaction, or nothing."""

import threading
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from cdc_assets.contract import SILVER, Column, bronze_columns, silver_columns
from cdc_assets.engines.spark import engine as engine_module
from cdc_assets.engines.spark.commits import TableState
from cdc_assets.engines.spark.session import new_session
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.tables import delta_schema, query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.merging import changes_above, rebuild_from
from cdc_assets.planning.plans import ApplyPlan
from cdc_assets_tests.engines.spark.helpers import CAPTURED, LiteralEngine, Tables, as_table, lsn


def state(uri: str) -> dict[object, object]:
    """Silver as {id: name}; read so that deletion vectors are honoured."""
    found = query("SELECT `id`, `name` FROM silver", silver=DeltaTable(uri)).to_pylist()
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row["name"] for row in found}


def above(number: int) -> str:
    return changes_above(Lsn(lsn(number)))


def test_the_latest_image_of_each_key_wins(engine: LiteralEngine, tables: Tables) -> None:
    tables.write(
        tables.changes(
            (1, 2, {"id": 1, "name": "a"}),
            (1, 2, {"id": 2, "name": "b"}),
            (2, 3, {"id": 1, "name": "a"}),
            (2, 4, {"id": 1, "name": "A"}),
            (3, 1, {"id": 2, "name": "b"}),
            (3, 2, {"id": None, "name": "null is a key"}),
        )
    )
    first = engine.apply(tables.apply_plan(1))
    assert (first.overtaken, first.upserted, first.deleted) == (False, 2, 0)
    assert state(tables.silver) == {1: "A", None: "null is a key"}

    tables.write(
        tables.changes(
            (4, 1, {"id": 1, "name": "A"}),
            (4, 4, {"id": None, "name": "changed"}),
            (4, 2, {"id": 3, "name": "c"}),
        )
    )
    second = engine.apply(tables.apply_plan(2, above(3)))
    assert (second.upserted, second.deleted) == (2, 1)
    assert state(tables.silver) == {None: "changed", 3: "c"}
    assert second.version == DeltaTable(tables.silver).version()
    assert DeltaTable(tables.silver).transaction_version("t#apply") == 2
    assert DeltaTable(tables.silver).history(1)[0]["userMetadata"] == "apply 2"


def test_applying_again_changes_nothing_and_still_commits(
    engine: LiteralEngine, tables: Tables
) -> None:
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))
    engine.apply(tables.apply_plan(1))
    again = engine.apply(tables.apply_plan(2))
    empty = engine.apply(tables.apply_plan(3, above(9)))
    assert (again.upserted, again.deleted, empty.upserted) == (0, 0, 0)
    assert DeltaTable(tables.silver).transaction_version("t#apply") == 3
    assert empty.version == DeltaTable(tables.silver).version() == 3
    assert state(tables.silver) == {1: "a"}


def test_bronze_is_read_at_the_pinned_version(engine: LiteralEngine, tables: Tables) -> None:
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))
    plan = tables.apply_plan(1)
    tables.write(tables.changes((2, 4, {"id": 1, "name": "later"})))
    engine.apply(plan)
    assert state(tables.silver) == {1: "a"}


def test_a_rebuild_deletes_what_the_snapshot_lacks(engine: LiteralEngine, tables: Tables) -> None:
    tables.write(
        tables.changes((1, 2, {"id": 1, "name": "a"}), (1, 2, {"id": 2, "name": "purged"}))
    )
    engine.apply(tables.apply_plan(1))
    rows = [
        {"_start_lsn": lsn(5), "_snapshot": lsn(5), "_operation": 0, "id": 1, "name": "snapshot"},
        {"_start_lsn": lsn(5), "_snapshot": lsn(5), "_operation": 0, "id": 3, "name": "c"},
        {"_start_lsn": lsn(6), "_operation": 1, "_seqval": lsn(1), "id": 3, "name": "c"},
    ]
    tables.write(tables.rows(rows))
    result = engine.apply(tables.apply_plan(2, rebuild_from(Lsn(lsn(5))), rebuild=True))
    assert state(tables.silver) == {1: "snapshot"}
    assert (result.upserted, result.deleted) == (1, 1)


def test_a_silver_that_is_not_at_the_version_before_is_overtaken(
    engine: LiteralEngine, tables: Tables
) -> None:
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))
    assert engine.apply(tables.apply_plan(2)).overtaken
    engine.apply(tables.apply_plan(1))
    assert engine.apply(tables.apply_plan(1)).overtaken
    assert DeltaTable(tables.silver).version() == 1


def test_a_version_taken_before_the_merge_began_is_overtaken(tables: Tables) -> None:
    """Spark skips it without a word; silver keeps what the other call wrote."""
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))

    class Late(LiteralEngine):
        def _merge(self, session: SparkSession, plan: ApplyPlan, before: TableState) -> None:
            tables.commit_elsewhere(tables.silver, "t#apply", 1, "another call")
            super()._merge(session, plan, before)

    assert Late().apply(tables.apply_plan(1)).overtaken
    assert state(tables.silver) == {}


def test_a_version_taken_while_the_merge_ran_is_overtaken(
    engine: LiteralEngine, tables: Tables
) -> None:
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"})))
    # The ranking tells that it runs, inside the MERGE, and then sleeps.
    signal = f"overtaken.{tables.root.name}"
    slow = (
        f"coalesce(reflect('java.lang.System', 'setProperty', '{signal}', 'x'), '') <> 'no'"
        " AND coalesce(reflect('java.lang.Thread', 'sleep', 4000L), '') <> 'no'"
    )
    plan = tables.apply_plan(1, f"{above(0)} AND {slow}", rebuild=True)
    system = new_session(engine._config).sparkContext._jvm.java.lang.System

    def other() -> None:
        deadline = time.monotonic() + 60
        while system.getProperty(signal) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        tables.commit_elsewhere(tables.silver, "t#apply", 1, "another call")

    thread = threading.Thread(target=other)
    thread.start()
    result = engine.apply(plan)
    thread.join()

    assert result.overtaken
    assert state(tables.silver) == {}
    assert DeltaTable(tables.silver).history(1)[0]["userMetadata"] == "another call"


def test_a_column_bronze_gained_is_added_to_silver(engine: LiteralEngine, tmp_path: Path) -> None:
    ensure_table(str(tmp_path / "silver"), SILVER, {}, silver_columns(CAPTURED))
    wider = Tables(tmp_path, columns=(*CAPTURED, Column("note", "STRING")))
    DeltaTable.create(wider.bronze, delta_schema(bronze_columns(wider.columns)))
    wider.write(wider.changes((1, 2, {"id": 1, "name": "a", "note": "n"})))

    assert engine.apply(wider.apply_plan(1)).upserted == 1

    fields = DeltaTable(wider.silver).schema().fields
    expected = [*(c.name for c in silver_columns(CAPTURED)), "note"]
    assert sorted(field.name for field in fields) == sorted(expected)
    assert {f.name: f.metadata.get("comment") for f in fields}["_start_lsn"]
    row = query("SELECT * FROM silver", silver=DeltaTable(wider.silver)).to_pylist()[0]
    assert row["note"] == "n"


def test_key_bounds_leave_files_outside_them_alone(engine: LiteralEngine, tables: Tables) -> None:
    for first in (0, 1000, 2000):
        rows = [{"id": i, "name": "old", "_start_lsn": lsn(1)} for i in range(first, first + 10)]
        table = as_table(rows, silver_columns(CAPTURED))
        write_deltalake(tables.silver, table, mode="append")
    tables.write(tables.changes((2, 4, {"id": 1003, "name": "new"})))

    engine.apply(tables.apply_plan(1))

    metrics = DeltaTable(tables.silver).history(1)[0]["operationMetrics"]
    assert metrics["numTargetFilesRemoved"] == "1"
    assert int(metrics["numTargetRowsCopied"]) == 9
    assert state(tables.silver)[1003] == "new"


def test_a_big_silver_gets_deletion_vectors(
    engine: LiteralEngine, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "DELETION_VECTORS_BYTES_MIN", 1)
    tables.write(tables.changes(*((1, 2, {"id": i, "name": "a"}) for i in range(50))))
    engine.apply(tables.apply_plan(1))
    tables.write(tables.changes((2, 1, {"id": 3, "name": "a"}), (2, 4, {"id": 4, "name": "b"})))
    result = engine.apply(tables.apply_plan(2, above(1)))

    assert (result.upserted, result.deleted) == (1, 1)
    metrics = DeltaTable(tables.silver).history(1)[0]["operationMetrics"]
    assert int(metrics["numTargetDeletionVectorsAdded"]) > 0
    features = DeltaTable(tables.silver).protocol().writer_features or []
    assert "deletionVectors" in features
    assert not [f for f in features if f.startswith("variant")]
    found = state(tables.silver)
    assert len(found) == 49
    assert found[4] == "b"


def test_a_composite_key_matches_null_safely(engine: LiteralEngine, tmp_path: Path) -> None:
    columns = (Column("id", "INT"), Column("name", "STRING"), Column("part", "DATE"))
    tables = Tables(tmp_path, columns=columns, keys=("id", "part")).create()
    tables.write(tables.changes((1, 2, {"id": 1, "name": "a"}), (1, 2, {"name": "b"})))
    engine.apply(tables.apply_plan(1))
    tables.write(tables.changes((2, 4, {"id": 1, "name": "A"}), (2, 1, {"name": "b"})))
    plan = tables.apply_plan(2, above(1))
    engine.apply(plan)
    assert state(tables.silver) == {1: "A"}
