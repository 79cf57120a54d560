"""What an apply refuses: clear words, and nothing written."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_assets.clock import utc_now
from cdc_assets.contract import Event
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lsn import Lsn
from cdc_assets.planning.records import FactsRow, Identity
from cdc_assets.silver import checks
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.helpers import load, once
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"


@pytest.fixture
def engine_name() -> str:
    """What is refused is decided before an engine is asked."""
    return "arrow"


def append(project: Project, **columns: object) -> None:
    """A row of bronze by another tool."""
    database = project.database()
    bronze = database.lake.bronze(database.table(TABLE))
    assert bronze is not None
    schema = pa.schema(bronze.schema().to_arrow())
    row = {**dict.fromkeys(schema.names), "_capture_instance": TABLE, "id": 77, **columns}
    properties = CommitProperties(app_transactions=[Transaction("another#tool", 1)])
    rows = pa.Table.from_pylist([row], schema=schema)
    write_deltalake(bronze, rows, mode="append", commit_properties=properties)


def silver_version(project: Project) -> int:
    return DeltaTable(project.database().table(TABLE).silver_uri).version()


def above(project: Project) -> str:
    """An LSN that silver has not applied."""
    row = project.database().lake.control.read()[f"silver/{TABLE}"]
    return str(Lsn.parse(row.applied_lsn or "").next())


def test_a_row_of_another_table(items: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is of an instance that was first seen after the facts were read."""
    load(items)
    version, at = silver_version(items), above(items)
    append(items, _capture_instance="dbo_OTHER", _start_lsn=at, _seqval=at, _operation=2)
    with pytest.raises(CaptureInstanceUnknownError, match="capture instance dbo_OTHER"):
        apply_changes(items.database(), TABLE)
    assert silver_version(items) == version
    (opened,) = (r for r in items.database().lake.facts.events() if r.event == Event.SNAPSHOT_OPEN)
    identity = Identity.from_dict(opened.payload["identity"])
    assert identity is not None

    def happens() -> None:
        seen = replace(identity, instance_name="dbo_other").to_dict()
        row = FactsRow(
            target=f"bronze/{TABLE}",
            event=str(Event.CAPTURE_INSTANCE_SEEN),
            detail=json.dumps({"identity": seen, "start_lsn": at}),
            written_at=utc_now(),
        )
        items.database().lake.facts.append([FactsEntry((row,))])

    once(monkeypatch, checks, "instances_of_rows", happens)
    assert apply_changes(items.database(), TABLE).upserted == 1


def test_rows_of_a_chunked_snapshot_that_no_facts_tell_of(items: Project) -> None:
    load(items)
    version, at = silver_version(items), above(items)
    append(items, _start_lsn=at, _operation=0, _snapshot=at, _chunk=0)
    with pytest.raises(SettingsError, match="the facts know none of bronze/dbo_items"):
        apply_changes(items.database(), TABLE)
    assert silver_version(items) == version
