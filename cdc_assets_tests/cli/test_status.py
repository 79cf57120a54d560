"""`cdc-assets status`: what the lake says, without a connection."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from cdc_assets.planning.status import TableStatus
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.path.chunking import chunked, run_backfill
from cdc_assets_tests.path.helpers import change_items, load, purge, run_sync
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]

COMPLETE_SECONDS_MAX = 60.0


def the_table(commands: Commands, project: Project) -> dict[str, Any]:
    """The only table's line of `--json`; the exit status goes with it."""
    ended = commands.of(project).run("status", "--json")
    (found,) = ended.document["tables"]
    assert ended.code == int(found["on_time"] is not True or bool(found["gaps"]))
    return dict(found)


def load_until_complete(project: Project) -> None:
    """Until the snapshot's last commit lies in a period that has ended; periods are seconds."""
    deadline = time.monotonic() + COMPLETE_SECONDS_MAX
    while load(project)[1].finalized_until is None:
        assert time.monotonic() < deadline
        change_items(project.source, base=random.randrange(1_000, 1_000_000_000))


def test_from_never_loaded_to_loaded_with_the_server_gone(
    items: Project, commands: Commands
) -> None:
    never = the_table(commands, items)
    assert list(never) == [field.name for field in fields(TableStatus)]
    assert (never["state"], never["on_time"], never["reason"]) == (
        "never_loaded",
        False,
        "never_loaded",
    )
    load(items)
    assert the_table(commands, items)["last_rows"] == 5
    load_until_complete(items)
    items.extra = {"connection": "file:nowhere.odbc"}
    told = the_table(commands, items)
    assert (told["database"], told["table"], told["state"]) == ("sales", "dbo_items", "loaded")
    assert (told["on_time"], told["reason"], told["snapshot"], told["gaps"]) == (
        True,
        "on_time",
        None,
        [],
    )
    batches = Counter(r["_batch_id"] for r in items.bronze("dbo_items") if r["_operation"])
    assert told["last_rows"] == batches[max(batches)]
    assert told["silver_complete_until"] == told["bronze_complete_until"] < told["last_sync"]
    assert told["last_sync"].endswith("Z")
    assert told["capture_lag_seconds"] >= 0
    assert told["retention_headroom_hours"] >= 0
    shown = commands.run("status", "sales")
    assert shown.code == 0
    assert shown.err == ""
    (line,) = [line for line in shown.out.splitlines() if "sales.dbo_items" in line]
    assert line.split()[:2] == ["sales.dbo_items", "loaded"]


def test_a_snapshot_in_chunks_and_what_is_left_of_it(project: Project, commands: Commands) -> None:
    chunked(project, rows=9, chunk_rows=2)
    run_sync(project)
    opened = the_table(commands, project)
    assert opened["state"] == "loading"
    assert (opened["snapshot"]["mode"], opened["snapshot"]["chunks_total"]) == ("chunked", None)
    run_backfill(project, max_waves=1)
    told = the_table(commands, project)
    assert (told["reason"], told["on_time"]) == ("no_period_yet", True)
    assert told["snapshot"]["chunks_done"] == 2
    assert told["snapshot"]["waves_done"] == 1
    chunks, waves = told["snapshot"]["chunks_total"], told["snapshot"]["waves_total"]
    assert waves == -(-chunks // 2)
    said = commands.run("status").out
    assert f"loading 2/{chunks}" in said
    assert f"1 of {waves} waves" in said
    assert "cdc-assets backfill" in said
    run_backfill(project)
    load_until_complete(project)
    done = the_table(commands, project)
    assert (done["state"], done["snapshot"], done["on_time"]) == ("loaded", None, True)


def test_a_gap_is_wrong_until_it_is_acknowledged(items: Project, commands: Commands) -> None:
    items.extra = {"defaults": {"on_data_loss": "resnapshot", "finality": items.finality}}
    load(items)
    purge(items.source)
    load_until_complete(items)
    (gap,) = the_table(commands, items)["gaps"]
    assert gap["start"] < gap["end"]
    assert "cdc-assets acknowledge sales dbo_items" in commands.run("status").out
    assert commands.run("acknowledge", "sales", "dbo_items").code == 0
    acknowledged = the_table(commands, items)
    assert (acknowledged["gaps"], acknowledged["on_time"]) == ([], True)


def test_a_table_taken_out_of_the_settings_is_retired(items: Project, commands: Commands) -> None:
    load(items)
    items.tables = {"dbo_others": None}
    found = commands.of(items).run("status", "--json").document["tables"]
    assert [(t["table"], t["state"], t["on_time"]) for t in found] == [
        ("dbo_others", "never_loaded", False),
        ("dbo_items", "retired", None),
    ]


def test_a_paused_table_is_not_wrong_and_nearer_to_cleanup(
    items: Project, commands: Commands
) -> None:
    load_until_complete(items)
    complete = the_table(commands, items)["silver_complete_until"]
    items.tables = {"dbo_items": {"paused": True}}
    ended = commands.of(items).run("status", "--json")
    assert ended.code == 0
    (found,) = ended.document["tables"]
    assert (found["state"], found["on_time"], found["reason"]) == ("paused", None, "paused")
    assert found["silver_complete_until"] == complete
    assert "paused: true" in commands.run("status").out
    assert "stands still" in commands.run("sync", "sales").err


def test_names_that_the_settings_lack_and_a_wrong_option(
    items: Project, commands: Commands
) -> None:
    unknown = commands.of(items).run("status", "store")
    assert (unknown.code, unknown.out) == (1, "")
    assert "no database store" in unknown.err
    assert commands.run("status", "--no-such").code == 2
