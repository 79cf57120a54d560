"""`cdc-assets discover`: three files for a database, and a first sync that works with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cdc_assets.cli.discover import files as package_files
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.source import Project

PROJECT = Path(__file__).parents[2]
NAMES = ("tables.yaml", "tables.schema.json", "workspace.yaml", "dagster.yaml")

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"], indirect=True),
]


@pytest.fixture
def place(items: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to write to; the connection string stands in another one."""
    items.write()
    folder = tmp_path / "new"
    monkeypatch.setenv("CDC_TABLES", str(folder / "tables.yaml"))
    return folder


def words(items: Project, *more: str) -> list[str]:
    """The command for the test's database."""
    ca_file = items.source.server.ca_file
    trusted = ["--ca-file", ca_file] if ca_file else []
    return [
        *("discover", "store", "--connection", f"file:{items.folder / 'source.odbc'}"),
        *trusted,
        *more,
    ]


def odd_tables(items: Project) -> None:
    """A name that is no key, a column of ours, a line break in a name, and no unique index."""
    execute, enable = items.source.execute, items.source.enable
    execute(
        "CREATE TABLE dbo.[odd # 'näme']"
        " (id int NOT NULL PRIMARY KEY, _batch_id int NULL, [two\nlines: {}] int NULL)",
        "INSERT INTO dbo.[odd # 'näme'] VALUES (1, 2, 3)",
        "CREATE TABLE dbo.heap (a int NULL)",
        "CREATE TABLE dbo.[evil\n      dbo_x: {snapshot: chunked} #] (a int NULL)",
    )
    enable("odd # 'näme'")
    enable("heap")
    enable("evil\n      dbo_x: {snapshot: chunked} #", instance="evil\n      dbo_x: {} #")


def test_what_it_writes_can_be_loaded(items: Project, commands: Commands, place: Path) -> None:
    odd_tables(items)
    ended = commands.run(*words(items, "--chunked-rows", "5"))
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in place.iterdir()) == sorted(NAMES)
    written = yaml.safe_load((place / "tables.yaml").read_text())["databases"]["store"]
    assert written["tables"] == {
        "dbo_items": {"snapshot": "chunked"},
        "dbo_odd_name": {
            "capture_instance": "dbo_odd # 'näme'",
            "rename": {"_batch_id": "source_batch_id"},
        },
    }
    said = ended.out.replace("\n", " ")
    assert "no unique index" in said
    assert "key id" in said
    assert "cdc-assets doctor store" in said
    assert commands.run("sync", "store").code == 0
    assert commands.run("backfill", "store", "dbo_items").code == 0
    assert commands.run("doctor", "store").out


def test_what_is_there_stays(items: Project, commands: Commands, place: Path) -> None:
    place.mkdir()
    (place / "dagster.yaml").write_text("# mine\n")
    found = commands.run(*words(items, "--json")).document
    assert [Path(path).name for path in found["written"]] == [*NAMES[:2], "workspace.yaml"]
    assert [Path(path).name for path in found["kept"]] == ["dagster.yaml"]
    assert [(t["key"], t["rows"], t["left_out"]) for t in found["tables"]] == [("dbo_items", 5, "")]
    (place / "tables.yaml").write_text("# mine\n")
    refused = commands.run(*words(items))
    assert (refused.code, refused.out) == (1, "")
    assert "--force" in refused.err
    assert (place / "tables.yaml").read_text() == "# mine\n"
    assert commands.run(*words(items, "--force")).code == 0
    assert "# mine" not in "".join((place / name).read_text() for name in NAMES)


def test_nothing_is_written_where_nothing_can_be_loaded(
    items: Project, commands: Commands, place: Path
) -> None:
    items.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'")
    none = commands.run(*words(items))
    assert (none.code, "cdc-assets sql" in none.err) == (1, True)
    items.source.execute("CREATE TABLE dbo.heap (a int NULL)")
    items.source.enable("heap")
    left = commands.run(*words(items))
    assert (left.code, "none of the 1" in left.err) == (1, True)
    assert not place.exists()


def test_a_connection_string_is_never_taken_from_the_command_line(
    items: Project, commands: Commands, place: Path
) -> None:
    refused = commands.run("discover", "--connection", "Server=x;PWD=C4nary")
    assert refused.code == 1
    assert "env:NAME" in refused.err
    assert "C4nary" not in refused.out + refused.err
    assert not place.exists()


def test_the_files_beside_are_those_of_this_project(engine_name: str) -> None:
    """They are the package's, so that an installed one has them too; but for a comment."""
    for name in NAMES[2:]:
        ours = (package_files("cdc_assets.cli") / "files" / name).read_text()
        assert yaml.safe_load(ours) == yaml.safe_load((PROJECT / name).read_text())
