"""A table of an older version is brought to today's when it is opened; a newer one is refused."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets import faults
from cdc_assets.contract import (
    BRONZE,
    CONTROL,
    FACTS,
    PLANS,
    SILVER,
    Column,
    TableContract,
)
from cdc_assets.errors import TableNewerError, TableReplacedError, UnsupportedColumnError
from cdc_assets.lake import migrating
from cdc_assets.lake.migrating import schema_version
from cdc_assets.lake.migrations import MIGRATIONS, Migration
from cdc_assets.lake.opening import create_table, ensure_table, open_table
from cdc_assets.lake.tables import MAPPING_MODE, columns_of
from cdc_assets_tests.lake import older

CONTRACTS = (BRONZE, SILVER, FACTS, CONTROL, PLANS)
KINDS = pytest.mark.parametrize("contract", CONTRACTS, ids=[c.kind for c in CONTRACTS])

SHIPPED = {
    "bronze": ["f881099a3d759e78"],
    "silver": ["32c89479f5ffbd59"],
    "history": ["27b9e0b0a0307889"],
    "facts": ["548b9f227bed75f5"],
    "control": ["5ec78c122cdf52ef"],
    "plans": ["5fedb68a49e389c9", "d51d51783360678c"],
}
"""Every migration that has shipped, as the hash of its text: a new one is added, none changes."""


def hashed(migration: Migration) -> str:
    columns = [migration.required, migration.added]
    text = repr([[(c.name, c.type, c.comment) for c in some] for some in columns])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def old(contract: TableContract, uri: str, **options: dict[str, str]) -> DeltaTable:
    return older.write(uri, older.tables({"id": "integer"})[contract.kind], [{"id": 1}], **options)


def state(folder: Path) -> dict[str, int]:
    return {str(f): f.stat().st_mtime_ns for f in folder.rglob("*") if f.is_file()}


def test_no_shipped_migration_was_edited() -> None:
    found = {kind: [hashed(m) for m in steps] for kind, steps in MIGRATIONS.items()}
    assert found == SHIPPED


@KINDS
def test_a_table_is_born_at_its_newest_version(contract: TableContract, tmp_path: Path) -> None:
    assert contract.version == len(MIGRATIONS[contract.kind])
    assert schema_version(ensure_table(str(tmp_path / "t"), contract, {})) == contract.version


@KINDS
def test_an_older_table_gets_what_it_lacks(contract: TableContract, tmp_path: Path) -> None:
    before = old(contract, str(tmp_path / "t"))
    table = open_table(str(tmp_path / "t"), contract, {})
    assert table is not None
    there = {column.name: column for column in columns_of(table)}
    assert {c.name: c.type for c in contract.columns}.items() <= {
        c.name: c.type for c in there.values()
    }.items()
    known = set(before.to_pyarrow_table().column_names)
    added = [c for c in contract.columns if c.name not in known]
    assert [there[c.name] for c in added] == added, "with its comment"
    assert schema_version(table) == contract.version
    assert table.metadata().id == before.metadata().id
    assert table.to_pyarrow_table().num_rows == 1
    opened_again = open_table(str(tmp_path / "t"), contract, {})
    assert opened_again is not None
    assert opened_again.version() == table.version(), "once"


@KINDS
def test_a_newer_table_is_refused_before_any_write(contract: TableContract, tmp_path: Path) -> None:
    newer = replace(contract, version=contract.version + 1)
    create_table(str(tmp_path / "t"), newer, {}, contract.columns)
    before = state(tmp_path)
    told = rf"has version {newer.version}, and this release knows {contract.version}"
    with pytest.raises(TableNewerError, match=told):
        open_table(str(tmp_path / "t"), contract, {})
    assert state(tmp_path) == before


@KINDS
@pytest.mark.parametrize("wrong", ["missing", "string"])
def test_another_table_is_refused_before_any_write(
    contract: TableContract, wrong: str, tmp_path: Path
) -> None:
    columns = dict(older.tables({"id": "integer"})[contract.kind])
    step = MIGRATIONS[contract.kind][0]
    name = next(c.name for c in step.required if c.type != "STRING")
    if wrong == "missing":
        del columns[name]
    else:
        columns[name] = wrong
    older.write(str(tmp_path / "t"), columns)
    before = state(tmp_path)
    with pytest.raises(TableReplacedError, match=f"no {contract.kind} table of ours.*{name}"):
        open_table(str(tmp_path / "t"), contract, {})
    assert state(tmp_path) == before


@KINDS
def test_several_openers_migrate_once(contract: TableContract, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    old(contract, uri)
    together = threading.Barrier(4)
    found: list[DeltaTable | None] = []

    def opener() -> None:
        together.wait()
        found.append(open_table(uri, contract, {}))

    threads = [threading.Thread(target=opener) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [schema_version(table) for table in found if table] == [contract.version] * 4
    operations = [entry["operation"] for entry in DeltaTable(uri).history()]
    steps = MIGRATIONS[contract.kind]
    assert operations.count("SET TBLPROPERTIES") == len(steps)
    assert operations.count("ADD COLUMN") == sum(bool(step.added) for step in steps)


@pytest.fixture
def three_versions(monkeypatch: pytest.MonkeyPatch) -> TableContract:
    """The facts as two releases later, each with a column of its own."""
    steps = [Migration(n, added=(Column(n, "STRING", f"{n}: it's `new`."),)) for n in ("a", "b")]
    monkeypatch.setattr(
        migrating, "MIGRATIONS", {**MIGRATIONS, "facts": (*MIGRATIONS["facts"], *steps)}
    )
    return replace(FACTS, version=3)


def test_steps_come_in_order_and_go_on_where_they_stopped(
    three_versions: TableContract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between the two commits of each step in turn; what was done is not done again."""
    uri = str(tmp_path / "t")
    old(FACTS, uri)
    for passed, version in ((0, 0), (1, 1), (1, 2)):
        with monkeypatch.context() as armed:
            points = iter([None] * passed)
            armed.setattr(faults, "reach", lambda _, left=points: _stop_after(left))
            with pytest.raises(_StoppedError):
                open_table(uri, three_versions, {})
        assert schema_version(DeltaTable(uri)) == version
    assert open_table(uri, three_versions, {}) is not None
    names = [column.name for column in columns_of(DeltaTable(uri))]
    assert names[-3:] == ["engine", "a", "b"]
    operations = [entry["operation"] for entry in DeltaTable(uri).history()]
    assert operations.count("ADD COLUMN") == operations.count("SET TBLPROPERTIES") == 3


class _StoppedError(Exception):
    pass


def _stop_after(left: Iterator[None]) -> None:
    if next(left, "stop") == "stop":
        raise _StoppedError


def test_a_table_that_only_spark_can_alter_says_what_to_run(tmp_path: Path) -> None:
    """delta-rs adds no column to a table that maps them; nothing is half done."""
    uri = str(tmp_path / "t")
    before = old(BRONZE, uri, properties={MAPPING_MODE: "name"})
    with pytest.raises(
        UnsupportedColumnError, match=r"ALTER TABLE delta.*ADD COLUMNS \(`_snapshot"
    ):
        open_table(uri, BRONZE, {})
    found = DeltaTable(uri)
    assert schema_version(found) == 0
    assert columns_of(found) == columns_of(before)


def test_a_mapped_table_without_a_column_to_add_needs_no_spark(tmp_path: Path) -> None:
    old(SILVER, str(tmp_path / "t"), properties={MAPPING_MODE: "name"})
    table = open_table(str(tmp_path / "t"), SILVER, {})
    assert table is not None
    assert schema_version(table) == SILVER.version
