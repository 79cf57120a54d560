"""B143: a type that bronze cannot hold is widened as the error says; only Spark goes on then."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import (
    CaptureInstanceUnknownError,
    LakeUnavailableError,
    SchemaChangedError,
    TableFeatureError,
)
from cdc_assets.ingest import telling as telling_module
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.lsn import Lsn
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import SPARK, Project, Source

pytestmark = [pytest.mark.sqlserver, pytest.mark.spark]
TABLE = "dbo_sized"
COLUMNS = ("id", "n", "amount", "word")
STATEMENT = re.compile(r"ALTER TABLE [^;]+")
LARGE = (1 << 40, Decimal("12345678901234.5678"), "w" * 50)


@pytest.fixture
def engine_name() -> str:
    """The engine is chosen by itself."""
    return "auto"


@pytest.fixture
def sized(project: Project) -> Project:
    """A captured table dbo.sized whose columns are small."""
    project.source.execute(
        "CREATE TABLE dbo.sized (id int NOT NULL PRIMARY KEY, n int, amount decimal(9,2),"
        " word varchar(10))",
        "INSERT INTO dbo.sized VALUES (1, 1, 1.25, 'one'), (2, 2, 2.5, 'two'), (3, 3, 3, 'three')",
    )
    project.source.enable("sized")
    project.tables = {TABLE: None}
    return project


def spark(*texts: str) -> list[tuple[Any, ...]]:
    """Run texts with Spark, as a person would; the rows of the last one."""
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
    from cdc_assets.engines.spark.session import new_session  # noqa: PLC0415
    from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

    session = new_session(SessionConfig.of(SparkSettings(**SPARK)))
    found = [session.sql(text) for text in texts]
    return sorted(tuple(row) for row in found[-1].collect())


def widen(source: Source) -> None:
    """Wider types, and a row that needs them, before capture or sync have seen them."""
    source.execute(
        "ALTER TABLE dbo.sized ALTER COLUMN n bigint",
        "ALTER TABLE dbo.sized ALTER COLUMN amount decimal(18,4)",
        "ALTER TABLE dbo.sized ALTER COLUMN word varchar(50)",
        f"UPDATE dbo.sized SET n = {LARGE[0]}, amount = {LARGE[1]}, word = '{LARGE[2]}'"
        " WHERE id = 1",
    )
    source.captured()


def follow_the_hint(sized: Project) -> None:
    """Do what the error says, word by word."""
    with pytest.raises(SchemaChangedError, match=r"n is BIGINT .* and column amount") as stopped:
        run_sync(sized)
    statements = STATEMENT.findall(stopped.value.hint)
    assert len(statements) == 6
    spark(*statements)


def assert_silver_is_the_source(sized: Project) -> None:
    uri = sized.database().table(TABLE).silver_uri
    ours = spark(f"SELECT id, n, amount, word FROM delta.`{uri}`")
    assert ours == sorted(sized.source.rows("SELECT id, n, amount, word FROM dbo.sized"))


def test_widened_as_the_error_says(sized: Project) -> None:
    load(sized, TABLE)
    sized.source.execute("UPDATE dbo.sized SET word = 'narrow' WHERE id = 2")
    widen(sized.source)
    follow_the_hint(sized)
    run_sync(sized)
    outcome = sized.database().lake.facts.batches(f"bronze/{TABLE}")[-1]
    reason = "auto: arrow cannot write a table with the Delta feature typeWidening"
    assert (outcome.rows, outcome.engine) == (4, f"spark ({reason})")
    applied = apply_changes(sized.database(), TABLE)
    assert applied.engine == f"spark ({reason})"
    assert_silver_is_the_source(sized)

    sized.source.execute(
        "INSERT INTO dbo.sized VALUES (9, 1, 0.0001, NULL)", "DELETE FROM dbo.sized WHERE id = 3"
    )
    sized.source.captured()
    outcome, applied = load(sized, TABLE)
    assert (outcome.work, applied.upserted, applied.deleted) == (Work.CHANGES, 1, 1)
    assert load(sized, TABLE)[0].work is Work.QUIET
    assert_silver_is_the_source(sized)

    with pytest.raises(TableFeatureError, match=r"delta-rs cannot read .* typeWidening"):
        sized.bronze(TABLE)
    sized.engine = "arrow"
    sized.source.execute("UPDATE dbo.sized SET n = 5 WHERE id = 9")
    sized.source.captured()
    with pytest.raises(TableFeatureError, match=r"Set `engine: spark` or `auto`"):
        run_sync(sized)
    sized.engine = "auto"
    again_by_a_snapshot(sized)
    after_a_reset(sized)


def test_waves_of_a_bronze_that_only_spark_reads(
    sized: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows cannot be counted by chunk, so they are unknown; a wave is told from its commit."""
    sized.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": 1}}
    run_sync(sized)
    assert backfill(sized.database(), TABLE, max_waves=1).chunks_done == 2
    uri = sized.database().table(TABLE).bronze_uri
    spark(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")

    def full(*_: object) -> None:
        raise LakeUnavailableError("there is no space left for the facts")

    with monkeypatch.context() as patch, pytest.raises(LakeUnavailableError):
        patch.setattr(telling_module, "tell_wave", full)
        backfill(sized.database(), TABLE)
    assert backfill(sized.database(), TABLE).done
    facts = sized.database().lake.facts.events(with_chunks=True)
    told = [(r.payload["wave"], r.rows) for r in facts if r.event == Event.SNAPSHOT_CHUNK]
    assert told == [(0, 1), (0, 1), (1, None)]
    (done,) = (row for row in facts if row.event == Event.BOOTSTRAP)
    assert done.rows is None
    load(sized, TABLE)
    assert_silver_is_the_source(sized)
    # What is wrong in bronze is seen there, too: Spark looks.
    row = sized.database().lake.control.read()[f"silver/{TABLE}"]
    strange = str(Lsn.parse(row.applied_lsn or "").next())
    spark(
        f"INSERT INTO delta.`{uri}` (_capture_instance, _start_lsn, _operation, id)"
        f" VALUES ('dbo_other', '{strange}', 2, 7)"
    )
    sized.source.execute("UPDATE dbo.sized SET n = 5 WHERE id = 1")
    sized.source.captured()
    run_sync(sized)
    with pytest.raises(CaptureInstanceUnknownError, match="capture instance dbo_other"):
        apply_changes(sized.database(), TABLE)


def again_by_a_snapshot(sized: Project) -> None:
    """A re-snapshot, and silver's rebuild from it."""
    outcome = sync(sized.database(), resnapshot=True).outcomes[TABLE]
    assert (outcome.error, outcome.work, outcome.rows) == (None, Work.SNAPSHOT, 3)
    assert apply_changes(sized.database(), TABLE).rebuilt
    assert_silver_is_the_source(sized)


def after_a_reset(sized: Project) -> None:
    reset(sized.database(), TABLE)
    with pytest.raises(
        TableFeatureError, match=r"bronze/dbo_sized/? has to begin anew.*Remove that folder"
    ):
        run_sync(sized)
