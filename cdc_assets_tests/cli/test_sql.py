"""`cdc-assets sql`: the script as it stands does what it says, and may be run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets.cli.wire import wire
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load, run_sync
from cdc_assets_tests.source import Project, Source, bracketed

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]


def run_script(source: Source, text: str) -> None:
    """Run a script as sqlcmd does: batch by batch, on one connection."""
    with wire(source.server.admin, database="master") as cursor:
        for batch in re.split(r"^GO$", text, flags=re.MULTILINE):
            cursor.execute(batch)


@pytest.fixture
def bare(project: Project) -> Project:
    """A source on which nothing was enabled, and settings that name its table."""
    source = project.source
    source.execute(
        "EXEC sys.sp_cdc_disable_db",
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, name nvarchar(40) NOT NULL,"
        " price decimal(12,4) NULL, at datetime2(3) NULL, note varchar(60) NULL)",
        "INSERT INTO dbo.items (id, name) VALUES (1, N'a'), (2, N'b'), (3, N'c'), (4, N'd')",
    )
    project.tables = {"dbo_items": None}
    return project


def test_from_nothing_to_a_loaded_table(bare: Project, commands: Commands) -> None:
    script = commands.of(bare).run("sql", "sales", "--retention-hours", "48")
    assert (script.code, script.err) == (0, "")
    for _ in range(2):
        run_script(bare.source, script.out)
    assert bare.source.rows("SELECT capture_instance FROM cdc.change_tables ORDER BY 1") == [
        ("cdc_heartbeat",),
        ("dbo_items",),
    ]
    assert bare.source.rows("SELECT COUNT(*) FROM dbo.cdc_heartbeat") == [(1,)]
    assert 48 * 60 in [row[7] for row in bare.source.rows("EXEC sys.sp_cdc_help_jobs")]
    change_items(bare.source)
    load(bare)
    bare.assert_identical("dbo_items", COLUMNS)
    doctor = commands.run("doctor", "--json")
    assert doctor.code == 0, doctor.out


def test_an_instance_switch(items: Project, commands: Commands) -> None:
    load(items)
    items.source.execute("ALTER TABLE dbo.items ADD extra int NULL")
    script = commands.of(items).run("sql", "sales", "dbo_items", "--switch")
    run_script(items.source, script.out)
    items.source.execute("UPDATE dbo.items SET extra = 7 WHERE id = 1")
    change_items(items.source)
    load(items)
    items.assert_identical("dbo_items", (*COLUMNS, "extra"))
    (call,) = re.findall(
        r"^-- (EXEC sys.sp_cdc_disable_table.*)\n--(.*)$", script.out, re.MULTILINE
    )
    items.source.execute(" ".join(call))
    change_items(items.source, base=700)
    run_sync(items)


NAMES = ("odd ]'[ näme", "semi;colon--", "x'); DROP TABLE dbo.items --", "日本")


def test_hostile_names(source: Source, commands: Commands, project: Project) -> None:
    """Every name goes through the one quoting function; the login's too."""
    create_items(source)
    for name in NAMES:
        source.execute(f"CREATE TABLE dbo.{bracketed(name)} (id int NOT NULL PRIMARY KEY)")
    project.tables = {"dbo_items": None}
    words = [f"dbo.{bracketed(name)}" for name in NAMES]
    script = commands.of(project).run("sql", "sales", *words, "--no-heartbeat")
    assert script.code == 0, script.err
    run_script(source, script.out)
    found = source.rows("SELECT capture_instance FROM cdc.change_tables")
    assert {f"dbo_{name}" for name in NAMES} <= {row[0] for row in found}
    hostile = commands.run("sql", "sales", "--login", "a]; DROP TABLE dbo.items --")
    assert "[a]]; DROP TABLE dbo.items --]" in hostile.out
    broken = commands.run("sql", "sales", "dbo.[a\nGO\nDROP TABLE dbo.items]")
    assert (broken.code, broken.out) == (1, "")
    assert "line break" in broken.err


def test_without_settings(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine_name: str
) -> None:
    """For who has none yet: names are the source's; a name that does not tell is asked for."""
    monkeypatch.setenv("CDC_TABLES", str(tmp_path / "tables.yaml"))
    script = commands.run("sql", "Sales DB", "dbo.orders", "--login", "reader 1")
    assert script.code == 0
    for text in ("USE [Sales DB];", "GRANT SELECT ON [dbo].[orders] TO [reader 1];"):
        assert text in script.out
    assert "<schema>.<table>" in commands.run("sql", "Sales DB").err
    assert "<schema>.<table>" in commands.run("sql", "Sales DB", "orders").err
    guessed = commands.run("sql", "Sales DB", "dbo_order_items")
    assert "is taken for dbo.order_items" in guessed.err
    assert "[dbo].[order_items]" in guessed.out
