"""sp_executesql's OUTPUT parameters; what a batch would return and what its parameters are."""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.results import OutputParameters, Parameter, SqlType
from cdc_assets_tests.sandbox.harness import Client

pytestmark = pytest.mark.sqlserver


@pytest.fixture
def t(db: Client) -> Client:
    db.run(
        "CREATE TABLE t(id int NOT NULL PRIMARY KEY, s nvarchar(10), c char(3), d datetime2(3), "
        "n decimal(9, 2), g uniqueidentifier)"
    )
    db.run("INSERT t (id, s) VALUES (1, N'x'), (2, N'y')")
    return db


# --- OUTPUT ------------------------------------------------------------------------------------


def test_output_parameters_come_back(t: Client) -> None:
    named = (
        "DECLARE @o int = 1, @u nvarchar(5); "
        "EXEC sp_executesql N'SET @x += @y; SET @s = N''abc''', "
        "N'@x int OUTPUT, @y int, @s nvarchar(5) OUTPUT', @x = @o OUTPUT, @y = 2, "
        "@s = @u OUTPUT; "
        "SELECT @o, @u"
    )
    assert t.rows(named) == [(3, "abc")]
    placed = (
        "DECLARE @o int; EXEC sp_executesql N'SELECT @x = COUNT(*) FROM t; RETURN; SET @x = 9', "
        "N'@x int OUTPUT', @o OUTPUT; SELECT @o"
    )
    assert t.value(placed) == 2


def test_without_output_the_callers_variable_stays(t: Client) -> None:
    text = "DECLARE @o int = 1; EXEC sp_executesql N'SET @x = 5', N'@x int OUTPUT', @o; SELECT @o"
    assert t.value(text) == 1


def test_a_parameter_must_be_given(t: Client) -> None:
    assert t.error("EXEC sp_executesql N'SELECT @x', N'@x int'").number == 8178
    assert t.error("EXEC sp_executesql N'SELECT @x', N'@x int', 1, 2").number == 8144
    assert t.error("EXEC sp_executesql N'SELECT @x', N'@x int', @y = 1").number == 8145


@pytest.mark.sandbox
def test_a_clients_output_parameters(t: Client) -> None:
    number, moment = SqlType("int"), SqlType("datetime2", scale=0)
    given = [
        Parameter("@n", number, 1, output=True),
        Parameter("@d", moment, None, output=True),
        Parameter("@in", number, 4),
    ]
    text = "SELECT 1 AS one; SET @n = @n + @in; SET @d = '2024-05-06 07:08:09'"
    *_, last = list(t.session.execute(text, given))
    ticks = t.value("SELECT CAST('2024-05-06 07:08:09' AS datetime2(0))")
    assert last == OutputParameters(0, (("@n", number, 5), ("@d", moment, ticks)))


# --- the first result set ----------------------------------------------------------------------


def described(client: Client, text: str, params: str = "NULL") -> list[tuple[object, ...]]:
    columns, rows = client.results(f"EXEC sp_describe_first_result_set N'{text}', {params}")[0]
    names = [column.name for column in columns]
    wanted = ("name", "is_nullable", "system_type_name", "max_length", "tds_type_id")
    places = [names.index(name) for name in wanted]
    return [tuple(row[place] for place in places) for row in rows]


def test_the_first_result_set(t: Client) -> None:
    text = "SET NOCOUNT ON; DECLARE @a int = 1; SELECT id, s, n * 2, @p AS p FROM t WHERE id > @a"
    assert described(t, text, "N'@p datetime'") == [
        ("id", False, "int", 4, 56),
        ("s", True, "nvarchar(10)", 20, 231),
        (None, True, "numeric(11,2)", 9, 108),
        ("p", True, "datetime", 8, 111),
    ]
    assert described(t, "UPDATE t SET s = NULL") == []
    assert t.value("SELECT COUNT(s) FROM t") == 2
    assert t.error("EXEC sp_describe_first_result_set N'SELECT nosuch FROM t'").number == 207


@pytest.mark.sandbox
def test_what_branches_is_not_described(t: Client) -> None:
    assert t.error("EXEC sp_describe_first_result_set N'IF 1 = 1 SELECT 1'").number == 40515


# --- undeclared parameters ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("SELECT * FROM t WHERE id = @P1 AND s <> @P2", ["int", "nvarchar(10)"]),
        ("SELECT * FROM t WHERE c = @P1", ["char(3)"]),
        ("SELECT * FROM t WHERE c > @P1", ["varchar(8000)"]),
        ("SELECT * FROM t WHERE n >= @P1 AND d < @P2", ["numeric(38,19)", "datetime2(7)"]),
        ("SELECT * FROM t WHERE id = id + @P1", ["int"]),
        ("SELECT * FROM t WHERE d IN (@P1, @P2)", ["datetime2(3)", "datetime2(3)"]),
        ("SELECT * FROM t WHERE s LIKE @P1", ["nvarchar(4000)"]),
        ("SELECT TOP (@P1) * FROM t", ["bigint"]),
        ("SELECT CAST(@P1 AS date), @P2", [11502]),
        ("SELECT CAST(@P1 AS date)", ["date"]),
        ("INSERT t (g, id, n) VALUES (@P1, @P2, @P3)", ["uniqueidentifier", "int", "decimal(9,2)"]),
        ("INSERT t (id) SELECT @P1", ["int"]),
        ("UPDATE t SET s = @P1, d = @P2 WHERE id = @P3", ["nvarchar(10)", "datetime2(3)", "int"]),
        ("DELETE t WHERE id BETWEEN @P1 AND @P2", ["int", "int"]),
        ("SELECT * FROM t WHERE @P1 = @P2", [11503]),
        ("SELECT * FROM t WHERE id = @P1 OR id = @P1", [11508]),
        ("SELECT * FROM nosuch WHERE id = @P1", [208]),
        ("SELECT id FROM t", []),
    ],
)
def test_undeclared_parameters(t: Client, text: str, kinds: list[object]) -> None:
    call = f"EXEC sp_describe_undeclared_parameters N'{text}'"
    if kinds and isinstance(kinds[0], int):
        assert t.error(call).number == kinds[0]
        return
    rows = t.rows(call)
    assert [row[3] for row in rows] == kinds
    assert [(row[0], row[1]) for row in rows] == [(i, f"@P{i}") for i in range(1, len(kinds) + 1)]


def test_declared_parameters_are_left_out(t: Client) -> None:
    call = "EXEC sp_describe_undeclared_parameters N'SELECT * FROM t WHERE id = @P1 AND s = @P2'"
    assert [row[1] for row in t.rows(f"{call}, N'@P1 bigint'")] == ["@P2"]
