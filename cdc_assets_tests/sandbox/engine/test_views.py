"""Views, and the catalogue of views and constraints."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def v(db: Client) -> Client:
    db.run(
        "CREATE TABLE t(id int NOT NULL CONSTRAINT pk PRIMARY KEY, s varchar(5) NOT NULL "
        "CONSTRAINT ck CHECK (s <> ''), up int CONSTRAINT fk REFERENCES t(id))",
        "INSERT t VALUES (1, 'a', NULL), (2, 'b', 1), (3, 'c', 1)",
        "CREATE VIEW v AS SELECT id, s AS text FROM t WHERE id < 3",
    )
    return db


def test_a_view_is_read_like_a_table(v: Client) -> None:
    assert v.rows("SELECT text FROM v WHERE id > 1") == [("b",)]
    assert v.types("SELECT * FROM dbo.v") == ["int", "varchar(5)"]
    assert v.rows("SELECT t.id FROM t JOIN v AS w ON w.id = t.up ORDER BY 1") == [(2,), (3,)]
    v.run("UPDATE t SET s = 'z' WHERE id = 1")
    assert v.rows(f"SELECT v.text FROM [{v.database}].dbo.v ORDER BY id") == [("z",), ("b",)]


def test_columns_may_be_named_and_views_nest(v: Client) -> None:
    v.run("CREATE VIEW w(number, twice) AS WITH c AS (SELECT id FROM v) SELECT id, id * 2 FROM c;")
    assert v.rows("SELECT twice FROM w WHERE number = 2") == [(4,)]
    v.run("ALTER VIEW w AS SELECT TOP 1 id FROM v ORDER BY id DESC")
    assert v.rows("SELECT * FROM w") == [(2,)]
    v.run("CREATE OR ALTER VIEW w AS SELECT 1 AS one", "DROP VIEW w", "DROP VIEW IF EXISTS w")
    assert v.error("SELECT * FROM w").number == 208


def test_its_owners_rights_and_its_own_grants(v: Client) -> None:
    reader = v.reader()
    assert reader.error("SELECT * FROM v").number == 229
    v.run("GRANT SELECT ON v TO reader")
    assert reader.rows("SELECT id FROM v ORDER BY id") == [(1,), (2,)]
    assert reader.error("SELECT * FROM t").number == 229
    assert reader.rows("SELECT name, type FROM sys.views") == [("v", "V ")]
    assert reader.value("SELECT HAS_PERMS_BY_NAME('dbo.v', 'OBJECT', 'SELECT')") == 1
    assert reader.value("SELECT OBJECT_ID('v', 'V')") == v.value("SELECT OBJECT_ID('v')")
    assert reader.error("DROP VIEW v").number == 3701


@pytest.mark.sandbox
def test_a_view_outlives_the_server(engine_server: Server, v: Client) -> None:
    engine_server.restart()
    client = engine_server.client()
    assert client.rows("SELECT text FROM v WHERE id = 2") == [("b",)]
    assert client.error("INSERT t VALUES (4, SPACE(0), NULL)").number == 547


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE VIEW v AS SELECT 1 AS a", 2714),
        ("CREATE VIEW t AS SELECT 1 AS a", 2714),
        ("CREATE TABLE v(a int)", 2714),
        ("ALTER VIEW nosuch AS SELECT 1 AS a", 208),
        ("CREATE VIEW w AS SELECT nosuch FROM t", 207),
        ("CREATE VIEW w AS SELECT * FROM nosuch", 208),
        ("CREATE VIEW w AS SELECT 1", 4511),
        ("CREATE VIEW w AS SELECT id, id FROM t", 4506),
        ("CREATE VIEW w(a) AS SELECT id, s FROM t", 8158),
        ("CREATE VIEW w AS SELECT id FROM t ORDER BY id", 1033),
        ("SELECT 1; CREATE VIEW w AS SELECT 1 AS a", 111),
        ("CREATE VIEW w AS SELECT @x AS a", 137),
        ("DROP VIEW t", 3705),
        ("DROP TABLE v", 3705),
        ("DROP VIEW nosuch", 3701),
        ("INSERT v VALUES (9, 'x')", 40515),
        ("DELETE v", 40515),
    ],
)
def test_what_is_refused(v: Client, text: str, number: int) -> None:
    assert v.error(text).number == number


def test_the_catalogue_of_views(v: Client) -> None:
    schema = "INFORMATION_SCHEMA"
    tables = v.rows(f"SELECT TABLE_NAME, TABLE_TYPE FROM {schema}.TABLES ORDER BY 1")
    assert tables == [("t", "BASE TABLE"), ("v", "VIEW")]
    columns = f"SELECT COLUMN_NAME FROM {schema}.COLUMNS WHERE TABLE_NAME = 'v'"
    assert v.rows(columns) == [("id",), ("text",)]
    definition = "CREATE VIEW v AS SELECT id, s AS text FROM t WHERE id < 3"
    assert v.rows(f"SELECT VIEW_DEFINITION FROM {schema}.VIEWS") == [(definition,)]
    assert v.value("SELECT OBJECT_DEFINITION(OBJECT_ID('v'))") == definition
    assert v.rows("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('v')") == [
        ("id",),
        ("text",),
    ]
    assert v.value("SELECT OBJECT_NAME(OBJECT_ID('v'))") == "v"
    assert v.rows("SELECT name FROM sys.tables") == [("t",)]
    found = v.rows("EXEC sp_tables @table_type = '''VIEW''', @table_owner = 'dbo'")
    assert [row[2:4] for row in found] == [("v", "VIEW")]


def test_the_catalogue_of_constraints(v: Client) -> None:
    schema = "INFORMATION_SCHEMA"
    assert v.rows(f"SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM {schema}.TABLE_CONSTRAINTS") == [
        ("pk", "PRIMARY KEY"),
        ("ck", "CHECK"),
        ("fk", "FOREIGN KEY"),
    ]
    assert v.rows(
        f"SELECT CONSTRAINT_NAME, COLUMN_NAME, ORDINAL_POSITION FROM {schema}.KEY_COLUMN_USAGE"
    ) == [("pk", "id", 1), ("fk", "up", 1)]
    assert v.rows(
        f"SELECT CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME FROM {schema}.REFERENTIAL_CONSTRAINTS"
    ) == [("fk", "pk")]
    assert v.rows(f"SELECT CHECK_CLAUSE FROM {schema}.CHECK_CONSTRAINTS") == [("(s <> '')",)]
    assert v.value(f"SELECT COUNT(*) FROM {schema}.SCHEMATA WHERE SCHEMA_NAME = 'dbo'") == 1
    assert v.rows(
        "SELECT name, type FROM sys.objects WHERE parent_object_id <> 0 ORDER BY name"
    ) == [
        ("ck", "C "),
        ("fk", "F "),
        ("pk", "PK"),
    ]
    for name in ("foreign_keys", "check_constraints", "key_constraints"):
        assert v.value(f"SELECT COUNT(*) FROM sys.{name}") == 1
    assert v.rows("SELECT parent_column_id, referenced_column_id FROM sys.foreign_key_columns") == [
        (3, 1)
    ]


def test_procedures_of_the_server(v: Client) -> None:
    (row,) = v.rows("EXEC sp_fkeys @pktable_name = 't'")
    named = (v.database, "dbo", "t")
    assert row == (*named, "id", *named, "up", 1, 1, 1, "fk", "pk", 7)
    assert v.rows("EXEC sp_fkeys @fktable_name = 't'") == [row]
    assert v.rows("EXEC sp_fkeys 'nosuch'") == []
    assert v.database in [r[0] for r in v.rows("EXEC sp_databases")]
    assert v.rows("EXEC sp_server_info 1") == [(1, "DBMS_NAME", "Microsoft SQL Server")]
    assert len(v.rows("EXEC sp_server_info")) == 29
    assert v.rows("EXEC sp_stored_procedures") == []
