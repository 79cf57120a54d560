"""`sync`, `snapshot`, `backfill`, `maintain` and `reset` as a person or a program runs them."""

from __future__ import annotations

import io

import pytest

from cdc_assets.contract import Event
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.path.chunking import chunked, events
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]


def test_sync_and_maintain_for_a_program(items: Project, commands: Commands) -> None:
    first = commands.of(items).run("sync", "sales", "--json")
    (told,) = first.document["tables"]
    assert (first.code, told["table"], told["work"], told["rows"]) == (
        0,
        "dbo_items",
        "snapshot",
        5,
    )
    assert (told["upserted"], told["error"]) == (5, None)
    kept = commands.run("maintain", "sales", "--json")
    assert kept.code == 0
    assert {"bronze/dbo_items", "silver/dbo_items"} <= {t["name"] for t in kept.document["tables"]}
    items.tables = {"dbo_items": None, "dbo_gone": None}
    failed = commands.of(items).run("sync", "sales", "--json")
    assert failed.code == 1
    errors = {one["table"]: one["error"] for one in failed.document["tables"]}
    assert errors["dbo_items"] is None
    assert "[capture_instance_unknown]" in errors["dbo_gone"]


def test_a_table_is_read_anew_as_a_whole(items: Project, commands: Commands) -> None:
    change_items(items.source)
    load(items)
    change_items(items.source, base=300)
    ended = commands.of(items).run("snapshot", "sales", "dbo_items", "--json")
    assert ended.code == 0, ended.err
    assert ended.document["tables"][0]["work"] == "snapshot"
    assert ended.document["backfill"] is None
    assert len(events(items, Event.BOOTSTRAP)) == len(events(items, Event.RESNAPSHOT)) == 1
    load(items)
    items.assert_identical("dbo_items", COLUMNS)


def test_a_table_is_read_in_chunks_to_the_last(project: Project, commands: Commands) -> None:
    """Its first snapshot; one more, begun by another call, is read on and no further one opened."""
    chunked(project, rows=9, chunk_rows=2)
    ended = commands.of(project).run("snapshot", "sales", "dbo_items")
    assert ended.code == 0, ended.err
    project.assert_identical("dbo_items", COLUMNS)
    assert len(events(project, Event.BOOTSTRAP)) == 1
    change_items(project.source)
    load(project)
    again = commands.run("snapshot", "sales", "dbo_items", "--json")
    assert (again.code, again.document["backfill"]["state"]) == (0, "done")
    assert again.document["backfill"]["chunks_done"] == again.document["backfill"]["chunks_total"]
    assert len(events(project, Event.SNAPSHOT_OPEN)) == 2
    project.assert_identical("dbo_items", COLUMNS)
    nothing = commands.run("backfill", "sales", "dbo_items", "--json")
    assert (nothing.code, nothing.document["done"]) == (0, True)


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("", 1), ("y\n", 0)])
def test_a_reset_wants_a_yes(
    items: Project, commands: Commands, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    load(items)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    ended = commands.of(items).run("reset", "sales", "dbo_items")
    assert ended.code == code
    assert "dbo_items" in ended.out + ended.err
    assert len(events(items, Event.RESET)) == 1 - code


def test_a_reset_without_a_question(items: Project, commands: Commands) -> None:
    load(items)
    assert commands.of(items).run("reset", "sales", "dbo_items", "--yes").code == 0
    assert len(events(items, Event.RESET)) == 1
