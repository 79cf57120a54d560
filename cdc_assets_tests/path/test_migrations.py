"""Tables of the design's first releases, in a lake, with a source that has gone on: taken over."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import (
    BRONZE,
    CONTROL,
    FACTS,
    SCHEMA_VERSION_PROPERTY,
    SILVER,
    TableContract,
)
from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError, TableNewerError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.outcome import Work
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.migrating import schema_version
from cdc_assets.silver.apply import apply_tables
from cdc_assets_tests.lake import older
from cdc_assets_tests.path.helpers import change_items, create_items, load
from cdc_assets_tests.path.killing import kill_at, kill_cases
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
CAPTURED = {"id": "integer", "name": "string"}
CONTRACTS = (BRONZE, SILVER, FACTS, CONTROL)


def places(database: Database) -> dict[str, str]:
    """Where the tables of each kind are."""
    table = database.table(TABLE)
    return {
        "bronze": table.bronze_uri,
        "silver": table.silver_uri,
        "facts": database.name.facts_uri,
        "control": database.name.control_uri,
    }


def write_older(project: Project, **properties: str) -> None:
    """What an early release has left: a snapshot, a batch of changes, both in silver."""
    source = project.source
    uris = places(project.database())
    columns = older.tables(CAPTURED)
    source.execute("UPDATE dbo.items SET name = N'before' WHERE id = 5")
    start = source.captured()
    at = commit_time(project, start)
    snapshot = [
        dict(zip(CAPTURED, row, strict=True))
        for row in source.rows("SELECT id, name FROM dbo.items")
    ]
    change_items(source)
    end = source.captured()
    changes = [
        {
            "_capture_instance": TABLE,
            "_start_lsn": row[0],
            "_seqval": row[1],
            "_operation": row[2],
            "_command_id": row[3],
            "_commit_ts": commit_time(project, row[0]),
            "_batch_id": 0,
            "id": row[4],
            "name": row[5],
        }
        for row in source.rows(
            "SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1),"
            " __$operation, __$command_id, id, name FROM cdc.dbo_items_CT"
            f" WHERE __$start_lsn > {start}"
        )
    ]  # fmt: skip
    rows = [
        {"_capture_instance": TABLE, "_start_lsn": start, "_operation": 0, "_commit_ts": at, **row}
        for row in snapshot
    ]
    older.write(uris["bronze"], columns["bronze"], [*rows, *changes], properties=properties)
    older.write(
        uris["silver"],
        columns["silver"],
        [{**row, "_start_lsn": start, "_commit_ts": at} for row in snapshot],
        properties=properties,
    )
    ended = commit_time(project, end)
    batch = {"app_id": "early", "target": f"bronze/{TABLE}", "written_at": ended}
    older.write(
        uris["facts"],
        columns["facts"],
        [
            {**batch, "event": "bootstrap", "rows": len(rows), "min_lsn": start, "max_lsn": start}
            | {"min_commit_ts": at, "max_commit_ts": at},
            {**batch, "batch_id": 0, "rows": len(changes), "min_lsn": start, "max_lsn": end},
        ],
    )
    control = {"finalized_until": at, "end_lsn": end, "end_commit_ts": ended, "updated_at": ended}
    names = [f"{layer}/{TABLE}" for layer in ("bronze", "silver")]
    older.write(uris["control"], columns["control"], [{"table_name": n, **control} for n in names])


def commit_time(project: Project, lsn: str) -> object:
    """The newest commit's time up to an LSN; the sandbox's zone is UTC."""
    return project.source.rows(
        "SELECT TOP (1) CAST(tran_end_time AS datetime2(3)) FROM cdc.lsn_time_mapping"
        f" WHERE start_lsn <= {lsn} ORDER BY start_lsn DESC"
    )[0][0]


@pytest.fixture
def early(project: Project) -> Project:
    """A project whose lake was begun by an early release, and whose source has gone on."""
    create_items(project.source)
    project.tables = {TABLE: {"keys": ["id"], "columns": list(CAPTURED)}}
    write_older(project)
    change_items(project.source, base=300)
    return project


def assert_taken_over(project: Project) -> None:
    project.assert_identical(TABLE, list(CAPTURED))
    project.assert_each_change_once(TABLE)
    database = project.database()
    versions = {kind: schema_version(DeltaTable(uri)) for kind, uri in places(database).items()}
    assert versions == {contract.kind: contract.version for contract in CONTRACTS}
    control = database.lake.control.read()
    assert control[f"bronze/{TABLE}"].identity is not None
    assert control[f"silver/{TABLE}"].applied_lsn == control[f"bronze/{TABLE}"].changed_lsn
    assert control[f"silver/{TABLE}"].end_lsn == control[f"bronze/{TABLE}"].end_lsn


def test_older_tables_are_read_and_go_on(early: Project) -> None:
    outcome, applied = load(early)
    assert outcome.work is Work.CHANGES
    assert applied.rebuilt
    assert_taken_over(early)
    change_items(early.source, base=500)
    outcome, applied = load(early)
    assert not applied.rebuilt
    assert_taken_over(early)
    facts = early.database().lake.facts
    assert [row.event for row in facts.events()] == ["bootstrap"], "no snapshot was taken"
    batches = facts.batches(f"bronze/{TABLE}")
    assert len(batches) == 3
    assert batches[-1].engine == outcome.engine


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_position_that_lags_behind_the_rows(early: Project) -> None:
    """Who moves `end_lsn` with the verdict alone leaves it behind: bronze's rows say how far."""
    bronze = f"bronze/{TABLE}"
    (first,) = [row for row in early.database().lake.facts.events() if row.event == "bootstrap"]
    control = DeltaTable(places(early.database())["control"])
    control.update(updates={"end_lsn": f"'{first.max_lsn}'"}, predicate=f"table_name = '{bronze}'")
    load(early)
    assert_taken_over(early)


@pytest.mark.parametrize("engine_name", ["arrow"])
def test_a_silver_that_is_gone_has_no_position(early: Project) -> None:
    """Also where control does not say of which table it speaks."""
    load(early)
    uris = places(early.database())
    DeltaTable(uris["control"]).update(
        updates={"table_id": "NULL"}, predicate=f"table_name = 'silver/{TABLE}'"
    )
    shutil.rmtree(uris["silver"])
    _, applied = load(early)
    assert applied.rebuilt
    assert_taken_over(early)


@pytest.mark.parametrize(
    ("engine_name", "point"),
    kill_cases([FaultPoint.TABLE_MIGRATED], spark=[FaultPoint.TABLE_MIGRATED]),
    indirect=["engine_name"],
)
def test_killed_between_columns_and_version(
    early: Project, point: FaultPoint, tmp_path: Path
) -> None:
    kill_at(early, point, tmp_path / "reached")
    control = DeltaTable(places(early.database())["control"])
    assert schema_version(control) == 0
    assert "applied_lsn" in {field.name for field in control.schema().fields}
    load(early)
    assert_taken_over(early)


@pytest.mark.parametrize("engine_name", ["arrow"])
@pytest.mark.parametrize("contract", CONTRACTS, ids=[c.kind for c in CONTRACTS])
def test_newer_tables_are_refused_before_any_write(items: Project, contract: TableContract) -> None:
    """The sync and the apply both; the source has changes that they would have to write."""
    load(items)
    change_items(items.source)
    database = items.database()
    table = DeltaTable(places(database)[contract.kind])
    newer = {SCHEMA_VERSION_PROPERTY: str(contract.version + 1)}
    table.alter.set_table_properties(newer, raise_if_not_exists=False)
    before = state(items)
    assert refusals(lambda: [o.error for o in sync(database).failed]) or contract is SILVER
    if contract is not SILVER:  # A sync has nothing to write there.
        assert state(items) == before
    before = state(items)
    assert refusals(lambda: [o.error for o in apply_tables(database, [TABLE]).values()])
    assert state(items) == before


def refusals(call: Callable[[], Iterable[CdcError | None]]) -> bool:
    """Whether a call refuses a newer table, raising that or telling of it for each table."""
    try:
        errors = list(call())
    except TableNewerError:
        return True
    return bool(errors) and all(isinstance(error, TableNewerError) for error in errors)


def state(project: Project) -> dict[str, int]:
    """Every file of the lake, and when it was written."""
    lake = Path(project.database().name.root)
    return {str(f): f.stat().st_mtime_ns for f in lake.rglob("*") if f.is_file()}
