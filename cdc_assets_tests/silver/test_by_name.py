"""`apply_changes` on tables that a caller names: the assets' own apply, under any spelling."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import cdc_assets
from cdc_assets import apply_changes
from cdc_assets.contract import Column, Event, bronze_columns
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError, SilverKeyError
from cdc_assets.finalization import is_final
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow, FactsRow, event_row
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.silver.apply import apply_changes as apply_asset
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import SPARK, Project

TABLE = "dbo_items"
NOON = datetime(2026, 3, 1, 12)
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])


def session(project: Project) -> Any:
    """A caller's session; None where delta-rs is to work."""
    if project.engine == "arrow":
        return None
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark.config import SessionConfig  # noqa: PLC0415
    from cdc_assets.engines.spark.session import new_session  # noqa: PLC0415
    from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

    return new_session(SessionConfig.of(SparkSettings(**SPARK)))


def lake(project: Project) -> Path:
    return project.folder / "lake" / "sales"


def places(project: Project) -> dict[str, Any]:
    return {
        "control_table": f"file://{lake(project)}/_cdc/control/",
        "facts_table": f"{lake(project)}/_cdc/facts",
    }


def options(project: Project) -> dict[str, str]:
    given = {"connection": f"file:{project.folder / 'source.odbc'}"}
    if project.source.server.ca_file:
        given["caFile"] = project.source.server.ca_file
    return given


def rows(uri: str) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    found = query(f"SELECT {names} FROM s", s=DeltaTable(uri)).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def files(project: Project) -> list[str]:
    return sorted(str(path) for path in lake(project).rglob("*"))


def synced_past_the_snapshot(project: Project) -> None:
    """Bronze is complete for all that the snapshot's read may have seen: that may take a second."""
    lake = project.database().lake
    taken = snapshots_by_target(lake.facts.events())[f"bronze/{TABLE}"].complete
    assert taken is not None
    assert taken.high_mark is not None
    for number in range(100):
        project.source.execute(f"UPDATE dbo.items SET note = N'{number}' WHERE id = 2")
        project.source.captured()
        run_sync(project)
        until = lake.control.read()[f"bronze/{TABLE}"].finalized_until
        if until is not None and until > taken.high_mark:
            return
    raise AssertionError(f"bronze is complete up to {until}, not past {taken.high_mark}")


def test_it_is_the_assets_own_apply(items: Project) -> None:
    """One position, one transaction, one row: whoever applied last, the other goes on there."""
    spark, bronze = session(items), f"{lake(items)}/bronze/{TABLE}"
    items.engine = "arrow"  # Of all that is not the call's.
    run_sync(items)
    target = f"{lake(items)}/silver/{TABLE}/"
    given: dict[str, Any] = {"capture_instance": TABLE, "granularity": "second", **places(items)}
    first = apply_changes(spark, bronze, target, **given)
    assert (first["rebuilt"], first["bronze_found"], first["rows_upserted"]) == (True, True, 5)
    items.assert_identical(TABLE, COLUMNS)
    assert not apply_asset(items.database(), TABLE).rebuilt
    change_items(items.source)
    run_sync(items)
    change_items(items.source, 300)
    of_asset = apply_asset(items.database(), TABLE)
    synced_past_the_snapshot(items)
    second = apply_changes(spark, bronze, target, **given)
    assert str(of_asset.applied_lsn) < str(second["applied_lsn"])
    assert (second["rebuilt"], second["overtaken"], second["hold"]) == (False, False, None)
    assert second["rows_upserted"] > 0
    items.assert_identical(TABLE, COLUMNS)
    control = items.database().lake.control.read()
    assert set(control) == {f"bronze/{TABLE}", f"silver/{TABLE}"}
    until = second["finalized_until"]
    assert until == control[f"silver/{TABLE}"].finalized_until is not None
    assert is_final(spark, places(items)["control_table"], target, until, granularity="second")


@ARROW
def test_a_silver_anywhere_with_the_sources_key(items: Project, tmp_path: Path) -> None:
    """Its name is its place, and its key is asked for where no snapshot has recorded one."""
    run_sync(items)
    target = str(tmp_path / "elsewhere" / "items")
    given = {"capture_instance": TABLE.upper(), **places(items)}
    bronze = f"bronze/{TABLE}"
    done = apply_changes(None, bronze, target, options=options(items), **given)
    assert (done["rebuilt"], rows(target)) == (True, items_rows(items))
    assert target in items.database().lake.control.read()
    # Control somewhere else: what the facts call a table is of their own lake.
    apart = {**given, "control_table": str(tmp_path / "ops" / "control")}
    done = apply_changes(None, f"{lake(items)}/bronze/{TABLE}", f"{target}2", **apart)
    assert (done["rebuilt"], rows(f"{target}2")) == (True, items_rows(items))
    without_facts = {**given, "facts_table": None}
    other = str(tmp_path / "without" / "items")
    done = apply_changes(None, bronze, other, options=options(items), **without_facts)
    assert rows(other) == items_rows(items)
    assert done["finalized_until"] is None


def append(items: Project, **columns: Any) -> None:
    """A row of bronze by another tool."""
    bronze = items.database().lake.bronze(items.database().table(TABLE))
    assert bronze is not None
    schema = pa.schema(bronze.schema().to_arrow())
    rows = pa.Table.from_pylist([{**dict.fromkeys(schema.names), **columns}], schema=schema)
    write_deltalake(bronze, rows, mode="append")


def items_rows(items: Project) -> list[tuple[Any, ...]]:
    names = ", ".join(COLUMNS)
    return sorted(items.source.rows(f"SELECT {names} FROM dbo.items"), key=repr)


@ARROW
def test_what_is_refused_writes_nothing(items: Project, tmp_path: Path) -> None:
    run_sync(items)
    before = files(items)
    target = f"{lake(items)}/silver/{TABLE}"

    def refused(kind: type[Exception], text: str, **changed: Any) -> None:
        call: Mapping[str, Any] = {"capture_instance": TABLE, **places(items), **changed}
        bronze = call.get("bronze", f"bronze/{TABLE}")
        rest = {name: value for name, value in call.items() if name not in ("bronze", "target")}
        with pytest.raises(kind, match=text):
            apply_changes(None, bronze, call.get("target", target), **rest)
        assert files(items) == before

    refused(SilverKeyError, "nope is not in bronze", keys=["nope"])
    refused(SilverKeyError, "named twice", keys=["id", "ID"])
    refused(SilverKeyError, "Pass keys", facts_table=None)
    refused(CaptureInstanceUnknownError, "capture instance dbo_other", capture_instance="dbo_other")
    strange = {"facts_table": None, "keys": ["id"], "capture_instance": "dbo_other"}
    refused(CaptureInstanceUnknownError, f"the capture instance {TABLE}", **strange)
    unknown = {"facts_table": None, "options": options(items), "capture_instance": "dbo_nothing"}
    refused(CaptureInstanceUnknownError, "dbo_nothing", **unknown)
    refused(SettingsError, "there is no session", target="ops.items")
    copied = str(tmp_path / "bronze")
    shutil.copytree(lake(items) / "bronze" / TABLE, copied)
    refused(SettingsError, f"know no table at {copied}.*know: bronze/{TABLE}", bronze=copied)
    at = str(Lsn.of_int(1 << 70))
    chunk = {"_capture_instance": TABLE, "_start_lsn": at, "_snapshot": at, "_chunk": 0}
    append(items, id=77, _operation=0, **chunk)
    before[:] = files(items)
    refused(SettingsError, "no facts are given", facts_table=None, keys=["id"])
    refused(SettingsError, f"the facts know none of bronze/{TABLE}")
    refused(SettingsError, "there is no session", bronze="ops.items")


@ARROW
def test_until_there_is_bronze_nothing_is_done(
    items: Project, caplog: pytest.LogCaptureFixture
) -> None:
    lake(items).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        done = apply_changes(
            None, "bronze/orders", f"{lake(items)}/silver/orders", keys=["id"], **places(items)
        )
    assert done == {
        "rebuilt": False,
        "applied_lsn": None,
        "finalized_until": None,
        "bronze_found": False,
        "rows_upserted": 0,
        "rows_deleted": 0,
        "waves_applied": 0,
        "overtaken": False,
        "hold": None,
    }
    assert "bronze/orders does not exist" in caplog.text
    assert files(items) == []


@pytest.mark.spark
@pytest.mark.parametrize("engine_name", ["spark"])
def test_names_of_a_catalog(items: Project, tmp_path: Path) -> None:
    """Bronze of the settings under a name, a silver and a control that are made by theirs."""
    spark = session(items)
    items.engine = "arrow"  # Of all that is not the call's.
    load(items)
    spark.sql(f"CREATE SCHEMA by_name LOCATION '{tmp_path / 'catalog'}'")
    try:
        given = {"keys": ["id"], "control_table": "by_name.control", "facts_table": "by_name.facts"}
        assert not apply_changes(spark, "by_name.bronze", "by_name.items", **given)["bronze_found"]
        for name in ("bronze", "facts"):
            folder = {"bronze": f"bronze/{TABLE}", "facts": "_cdc/facts"}[name]
            place = lake(items) / folder
            spark.sql(f"CREATE TABLE by_name.{name} USING DELTA LOCATION '{place}'")
        done = apply_changes(spark, "by_name.bronze", "by_name.Items", **given)
        assert (done["rebuilt"], done["rows_upserted"]) == (True, 5)
        assert spark.table("by_name.items").count() == 5
        again = apply_changes(spark, "By_Name.Bronze", "by_name.items", **given)
        assert (again["rebuilt"], again["applied_lsn"]) == (False, done["applied_lsn"])
        (row,) = spark.table("by_name.control").collect()
        assert row["table_name"] == str(tmp_path / "catalog" / "items")
        assert not is_final(spark, "by_name.control", "by_name.items", datetime(2026, 1, 1))
    finally:
        spark.sql("DROP SCHEMA by_name CASCADE")


def test_a_stream_without_any_snapshot(project: Project) -> None:
    """Silver is all of bronze's changes, and its verdict bronze's, until there is a snapshot."""
    project.tables = {TABLE: None}
    spark, lakes = session(project), lake(project)
    database = project.database()
    name, bookkeeping = database.table(TABLE), database.lake
    captured = (Column("id", "INT"), Column("v", "STRING"))
    bronze = bookkeeping.ensure_bronze(name, bronze_columns(captured))

    def streamed(number: int, *changes: tuple[int, int, str]) -> None:
        """A batch of one commit, and the facts and the verdict after it."""
        lsn, at = str(Lsn.of_int(number)), NOON + timedelta(seconds=number)
        own = {"_capture_instance": TABLE, "_start_lsn": lsn, "_commit_ts": at, "_command_id": 1}
        rows = [
            {**own, "_seqval": str(Lsn.of_int(i)), "_operation": operation, "id": key, "v": v}
            for i, (operation, key, v) in enumerate(changes, 1)
        ]
        schema = pa.schema(bronze.schema().to_arrow())
        full = [{**dict.fromkeys(schema.names), **row} for row in rows]
        write_deltalake(bronze, pa.Table.from_pylist(full, schema=schema), mode="append")
        row = FactsRow(name.changes_app, number, name.bronze, max_lsn=lsn, written_at=at)
        bookkeeping.facts.append([FactsEntry((row,))])
        end = ControlRow(name.bronze, at, lsn, at, changed_lsn=lsn)
        bookkeeping.control.update(lambda _: [end])

    given: dict[str, Any] = {"keys": ["id"], **places(project), "granularity": "second"}
    uris = f"{lakes}/bronze/{TABLE}", f"{lakes}/silver/{TABLE}"
    streamed(20, (2, 1, "a"), (2, 2, "b"), (2, 3, "c"))
    first = apply_changes(spark, *uris, **given)
    assert (first["rebuilt"], first["rows_upserted"], first["hold"]) == (False, 3, None)
    assert first["finalized_until"] == NOON + timedelta(seconds=20)
    streamed(30, (1, 1, "a"), (3, 2, "b"), (4, 2, "z"))
    second = apply_changes(spark, *uris, **given)
    assert (second["rows_upserted"], second["rows_deleted"]) == (1, 1)
    assert second["applied_lsn"] == str(Lsn.of_int(30))
    assert project.silver(TABLE, ["id", "v"]) == [(2, "z"), (3, "c")]
    if spark is not None:
        return
    row = bookkeeping.control.read()[name.silver]
    assert (row.snapshot_lsn, row.finalized_until) == (None, second["finalized_until"])
    # One that is made anew takes all of them again, and none of what another had.
    shutil.rmtree(uris[1])
    apply_changes(spark, *uris, **given)
    assert project.silver(TABLE, ["id", "v"]) == [(2, "z"), (3, "c")]
    s = Offset(Lsn.of_int(30), NOON + timedelta(seconds=30))
    opened = event_row(Event.SNAPSHOT_OPEN, name.bronze, s, detail={"keys": ["id"]})
    bookkeeping.facts.append([FactsEntry((replace(opened, written_at=s.commit_ts),))])
    assert apply_changes(spark, *uris, **given)["hold"] == "snapshot_open"
    done = event_row(Event.BOOTSTRAP, name.bronze, s, detail={"keys": ["id"]})
    bookkeeping.facts.append([FactsEntry((replace(done, written_at=s.commit_ts),))])
    assert apply_changes(spark, *uris, **given)["rebuilt"]
    assert project.silver(TABLE, ["id", "v"]) == []


def test_what_the_package_exports() -> None:
    assert cdc_assets.apply_changes is apply_changes
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cdc_assets.nothing
