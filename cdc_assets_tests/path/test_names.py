"""Names end to end: what Delta refuses, what collides, what is renamed or chosen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.errors import TableFeatureError, UnsupportedColumnError
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.tables import is_mapped
from cdc_assets_tests.path.helpers import load, run_sync
from cdc_assets_tests.source import Project, Server, Source, bracketed

ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)

REFUSED = ("Unit Price", "a=b", "a;b", "(x)", "{x}", "a,b", "tab\tx", "line\nx")


def create(source: Source, *columns: str, table: str = "t") -> None:
    """A captured table dbo.t with an integer key and nvarchar columns, and one row."""
    body = ", ".join(f"{bracketed(c)} nvarchar(20) NULL" for c in columns)
    source.execute(f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, {body})")
    insert(source, 1, len(columns), table)
    source.enable(table)


def insert(source: Source, key: int, count: int, table: str = "t") -> None:
    """A row of texts."""
    values = ", ".join(f"N'{key}.{n}'" for n in range(count))
    source.execute(f"INSERT INTO dbo.{table} VALUES ({key}, {values})")


def fails(project: Project, *parts: str) -> None:
    """A sync whose one table fails with these words, and writes nothing."""
    with pytest.raises((UnsupportedColumnError, TableFeatureError)) as caught:
        run_sync(project)
    for part in parts:
        assert part in str(caught.value)


def test_names_that_delta_refuses(project: Project, source: Source) -> None:
    """B123: such a table maps columns by name; appends and merges go on as in any other."""
    create(source, *REFUSED)
    project.tables = {"dbo_t": {"keys": ["id", "Unit Price"], "keys_unchecked": True}}
    load(project, "dbo_t")
    source.execute("UPDATE dbo.t SET [a=b] = N'new', [Unit Price] = N'x'")
    insert(source, 2, len(REFUSED))
    source.captured()
    load(project, "dbo_t")
    first = ("x", "new", *(f"1.{n}" for n in range(2, len(REFUSED))))
    second = tuple(f"2.{n}" for n in range(len(REFUSED)))
    assert project.silver("dbo_t", ("id", *REFUSED)) == [(1, *first), (2, *second)]
    database = project.database()
    table = database.table("dbo_t")
    for delta in (database.lake.bronze(table), database.lake.silver(table)):
        assert delta is not None
        assert is_mapped(delta)
        assert "columnMapping" in delta.protocol().reader_features


@pytest.mark.spark
@ARROW
def test_engines_take_turns_on_a_mapped_table(project: Project, source: Source) -> None:
    """B123, B132: what one engine wrote, the other reads, appends to and merges.

    A new column goes to Spark, which `auto` chooses for it.
    """
    create(source, "Unit Price", "UserCode", "new;one")
    project.tables = {"dbo_t": {"columns": ["id", "Unit Price", "UserCode"]}}
    for number, engine in enumerate(("arrow", "spark", "arrow"), 2):
        project.engine = engine
        load(project, "dbo_t")
        source.execute(f"UPDATE dbo.t SET UserCode = N'{engine}'")
        insert(source, number, 3)
        source.captured()
    project.tables = {"dbo_t": None}
    fails(project, "cannot add the column 'new;one' to a table that maps", "spark")
    project.engine = "auto"
    outcome, silver = load(project, "dbo_t")
    assert outcome.engine.startswith("spark (auto: ")
    assert silver.engine.startswith("spark (auto: ")
    project.assert_identical("dbo_t", ("id", "Unit Price", "UserCode"))
    for key in (5, 6):
        insert(source, key, 3)
    source.captured()
    outcome, _ = load(project, "dbo_t")
    assert outcome.engine.startswith("arrow")
    assert project.silver("dbo_t", ("id", "new;one"))[-3:] == [(4, "4.2"), (5, "5.2"), (6, "6.2")]


@ARROW
def test_a_refused_name_added_to_a_table_without_mapping(project: Project, source: Source) -> None:
    """B123: a clear error before anything is written, and `rename` is the way out."""
    create(source, "a", "Unit Price")
    project.tables = {"dbo_t": {"columns": ["id", "a"]}}
    load(project, "dbo_t")
    version = _bronze(project).version()
    insert(source, 2, 2)
    source.captured()
    project.tables = {"dbo_t": None}
    fails(
        project, "column 'Unit Price' has a character that Delta refuses", "rename: {'Unit Price'"
    )
    assert _bronze(project).version() == version
    project.tables = {"dbo_t": {"rename": {"Unit Price": "unit_price"}}}
    load(project, "dbo_t")
    assert project.silver("dbo_t", ("id", "unit_price")) == [(1, None), (2, "2.1")]


def _bronze(project: Project) -> Any:
    database = project.database()
    return database.lake.bronze(database.table("dbo_t"))


OURS = ("_start_lsn", "_operation", "_Commit_TS", "_BATCH_ID", "_snapshot")


@ARROW
@pytest.mark.parametrize("name", OURS)
def test_a_column_named_like_one_of_ours(project: Project, source: Source, name: str) -> None:
    """B127: refused with the way out, and loaded under another name."""
    create(source, name)
    project.tables = {"dbo_t": None}
    fails(project, f"column {name} has the name of one of ours", f"rename: {{{name}: …}}")
    project.tables = {"dbo_t": {"rename": {name: "theirs"}}}
    load(project, "dbo_t")
    source.execute("UPDATE dbo.t SET " + bracketed(name) + " = N'new'")
    source.captured()
    load(project, "dbo_t")
    assert project.silver("dbo_t", ("id", "theirs")) == [(1, "new")]


HOSTILE_DATABASE = "flat [1]] ü';--"
HOSTILE_SCHEMA = 'my [schema].] "x"'
HOSTILE_TABLE = "UAT WAG CZ$Fixed Asset ['1']. ü, -- " + "日本" * 46
HOSTILE = (
    # B120
    *("my col$a", "my col#b", "a]b", 'a"b', "a'b", "a;b", "--", "/* */", "[x]", "%s", "?", "{x}"),
    *("c.d", "`", "``a`b", "ü\u00a0é", "日本語", "😀", "x" * 128, "日" * 128, " lead", "trail ."),
    # B127: aliases of ours, and of the engines.
    *("s", "t", "source", "target", "bronze", "ranked", "__rank", "ranking", "low0", "_metadata"),
    # B130
    *(
        "select",
        "from",
        "order",
        "key",
        "timestamp",
        "user",
        "index",
        "count",
        "null",
        "row_number",
    ),
)


def test_a_hostile_table(server: Server, tmp_path: Path, engine_name: str) -> None:
    """B120, B121, B127, B130: database, schema, table and columns of any name, end to end."""
    source = Source.create(server, HOSTILE_DATABASE + f" {os.getpid()} {engine_name}")
    project = Project(tmp_path, source, engine_name)
    place = f"{bracketed(HOSTILE_SCHEMA)}.{bracketed(HOSTILE_TABLE)}"
    every = ", ".join(f"{bracketed(name)} nvarchar(20) NULL" for name in HOSTILE)
    values = ", ".join(f"N'{n}'" for n in range(len(HOSTILE)))
    source.execute(
        f"CREATE SCHEMA {bracketed(HOSTILE_SCHEMA)}",
        f"CREATE TABLE {place} (id int NOT NULL, [key] nvarchar(9) NOT NULL,"
        f" {every.replace('[key] nvarchar(20) NULL, ', '')}, PRIMARY KEY (id, [key]))",
        f"INSERT INTO {place} (id, {', '.join(map(bracketed, HOSTILE))}) VALUES (1, {values})",
        f"INSERT INTO {place} (id, [key]) VALUES (2, N'k'), (3, N'k'), (4, N'k')",
    )
    instance = "it's [a]; ci.1 -- ü"
    source.enable(HOSTILE_TABLE, HOSTILE_SCHEMA, instance)
    project.tables = {"hostile": {"capture_instance": instance}}
    project.extra = {"num_partitions": 2}
    load(project, "hostile")
    source.execute(
        f"UPDATE {place} SET [select] = N'new', [a]]b] = N'it''s' WHERE id = 2",
        f"DELETE FROM {place} WHERE id = 3",
    )
    source.captured()
    load(project, "hostile")
    names = ("id", *HOSTILE)
    theirs = source.rows(f"SELECT {', '.join(map(bracketed, names))} FROM {place}")
    assert project.silver("hostile", names) == sorted(theirs, key=repr)


@ARROW
def test_dots_are_no_qualifiers(project: Project, source: Source) -> None:
    """B121: schema `a.b`, table `c.d`, beside schema `a`, table `b.c`."""
    for schema, table in (("a.b", "c.d"), ("a", "b.c"), ("a.b.c", "d")):
        source.execute(
            f"CREATE SCHEMA [{schema}]",
            f"CREATE TABLE [{schema}].[{table}] (id int NOT NULL PRIMARY KEY, n nvarchar(20))",
            f"INSERT INTO [{schema}].[{table}] VALUES (1, N'{schema}')",
        )
        source.enable(table, schema)
    instances = {"one": "a.b_c.d", "two": "a_b.c", "three": "a.b.c_d"}
    project.tables = {key: {"capture_instance": name} for key, name in instances.items()}
    for key, schema in (("one", "a.b"), ("two", "a"), ("three", "a.b.c")):
        load(project, key)
        assert project.silver(key, ("id", "n")) == [(1, schema)]


@ARROW
def test_renamed_columns(project: Project, source: Source) -> None:
    """B129: source names for reading, ours for writing: bronze, silver, key and snapshots."""
    source.execute(
        "CREATE TABLE dbo.t (RowPointer int NOT NULL, part nvarchar(9) NOT NULL, v int,"
        " PRIMARY KEY (RowPointer, part))",
        "INSERT INTO dbo.t VALUES (1, N'a', 10), (2, N'b', 20), (3, N'c', 30)",
    )
    source.enable("t")
    project.extra = {"num_partitions": 3}
    rename = {"RowPointer": "row_pointer", "part": "row part", "V": "value"}
    project.tables = {"dbo_t": {"rename": rename}}
    load(project, "dbo_t")
    source.execute("UPDATE dbo.t SET v = 21 WHERE RowPointer = 2", "DELETE dbo.t WHERE part = 'c'")
    source.captured()
    load(project, "dbo_t")
    assert project.silver("dbo_t", ("row_pointer", "row part", "value")) == [
        (1, "a", 10),
        (2, "b", 21),
    ]
    load_again = sync(project.database(), resnapshot=True)
    assert load_again.failed == ()
    names = {field.name for field in _bronze(project).schema().fields}
    assert {"row_pointer", "row part", "value"} <= names
    assert not {"RowPointer", "part", "v"} & names


@ARROW
def test_what_the_settings_may_name(project: Project, source: Source) -> None:
    """Unknown names list the candidates; a case that differs is understood where it is unique."""
    create(source, "Price", "note")
    for option in ({"columns": ["id", "prize"]}, {"rename": {"prize": "p"}}):
        project.tables = {"dbo_t": option}
        fails(project, f"column prize in `{next(iter(option))}`", "Captured are: id, Price, note")
    project.tables = {"dbo_t": {"rename": {"note": "PRICE"}}}
    fails(project, "columns Price and note would both be PRICE")
    project.tables = {"dbo_t": {"columns": ["ID", "price"]}}
    load(project, "dbo_t")
    assert project.silver("dbo_t", ("id", "Price")) == [(1, "1.0")]
    assert "note" not in {field.name for field in _bronze(project).schema().fields}


@ARROW
def test_another_case_in_the_settings(project: Project, source: Source) -> None:
    """B125: what is named there in another case is found, and read as the server names it."""
    source.execute("CREATE TABLE dbo.MyTableOne (Id int NOT NULL PRIMARY KEY, Name nvarchar(9))")
    source.execute("INSERT INTO dbo.MyTableOne VALUES (1, N'a')")
    source.enable("MyTableOne")
    project.tables = {"dbo_mytableone": {"keys": ["id"]}}
    load(project, "dbo_mytableone")
    source.execute("UPDATE dbo.MyTableOne SET Name = N'b'")
    source.captured()
    load(project, "dbo_mytableone")
    assert project.silver("dbo_mytableone", ("Id", "Name")) == [(1, "b")]
