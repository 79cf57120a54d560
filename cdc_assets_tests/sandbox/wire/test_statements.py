"""Declarations and prepared statements, without a driver."""

from __future__ import annotations

import pytest

from cdc_assets.sandbox.results import (
    MAX_LENGTH,
    OutputParameters,
    Parameter,
    RowCount,
    SqlError,
    SqlType,
)
from cdc_assets.sandbox.wire import rpc
from cdc_assets.sandbox.wire.declarations import bind, parse_declarations
from cdc_assets.sandbox.wire.requests import ProcedureCall
from cdc_assets.sandbox.wire.rpc import StatementRunner
from cdc_assets_tests.sandbox.wire.canned import CannedBackend, CannedSession

INT = SqlType("int")
TEXT = SqlType("nvarchar", length=100)


@pytest.mark.parametrize(
    ("text", "name", "sql_type", "output"),
    [
        ("@P1 nvarchar(64)", "@P1", SqlType("nvarchar", length=64), False),
        ("@p NVARCHAR(MAX)", "@p", SqlType("nvarchar", length=MAX_LENGTH), False),
        ("@p as decimal(15, 2) OUTPUT", "@p", SqlType("decimal", precision=15, scale=2), True),
        ("@p dec", "@p", SqlType("decimal", precision=18, scale=0), False),
        ("@p datetime2", "@p", SqlType("datetime2", scale=7), False),
        ("@p datetime2(3)out", "@p", SqlType("datetime2", scale=3), True),
        ("@p float(24)", "@p", SqlType("real"), False),
        ("@p [sys].[int] = 5", "@p", SqlType("int"), False),
        ("@p sysname", "@p", SqlType("nvarchar", length=128), False),
        ("@p timestamp", "@p", SqlType("rowversion"), False),
        ("@p ntext", "@p", SqlType("ntext"), False),
        ("@p dbo.orders READONLY", "@p", None, False),
    ],
)
def test_one_declaration(text: str, name: str, sql_type: SqlType | None, output: bool) -> None:
    (declared,) = parse_declarations(text)
    assert (declared.name, declared.type, declared.output) == (name, sql_type, output)


def test_several_declarations() -> None:
    text = "@a decimal(15,2),@b int , @c varchar(8) output"
    assert [declared.name for declared in parse_declarations(text)] == ["@a", "@b", "@c"]
    assert parse_declarations(" ") == ()
    with pytest.raises(SqlError, match="Incorrect syntax"):
        parse_declarations("a int")


def test_values_are_bound_by_name_or_by_place() -> None:
    declared = parse_declarations("@a int, @b nvarchar(9)")
    named = [Parameter("@B", TEXT, "x"), Parameter("@a", INT, 1)]
    placed = [Parameter("", INT, 1), Parameter("", TEXT, "x")]
    for values in (named, placed):
        bound = bind(declared, values)
        assert [(value.name, value.value) for value in bound] == [("@a", 1), ("@b", "x")]
        assert str(bound[1].type) == "nvarchar(9)"
    with pytest.raises(SqlError, match="'@b', which was not supplied"):
        bind(declared, placed[:1])


@pytest.fixture
def session(backend: CannedBackend) -> CannedSession:
    backend.results_of("q", lambda: [RowCount(1)])
    return CannedSession(backend, "master")


def call(runner: StatementRunner, name: str, *values: object) -> list:
    parameters = tuple(
        Parameter("", INT if isinstance(value, int | None) else TEXT, value) for value in values
    )
    return list(runner.run(ProcedureCall(name, parameters, last=True)))


def test_prepare_execute_unprepare(session: CannedSession) -> None:
    runner = StatementRunner(session)
    (prepared,) = call(runner, "sp_prepare", None, "@a int", "q", 1)
    assert isinstance(prepared, OutputParameters)
    ((_, _, handle),) = prepared.values
    assert call(runner, "sp_execute", handle, 7) == [RowCount(1)]
    assert [(p.name, p.value) for p in session.parameters[-1]] == [("@a", 7)]
    assert call(runner, "sp_unprepare", handle) == []
    with pytest.raises(SqlError, match="Could not find prepared statement"):
        call(runner, "sp_execute", handle, 7)


def test_prepexec_replaces_its_handle(session: CannedSession) -> None:
    runner = StatementRunner(session)
    first, rows = call(runner, "sp_prepexec", None, "@a int", "q", 1)
    assert rows == RowCount(1)
    old = first.values[0][2]
    second, _ = call(runner, "sys.sp_prepexec", old, None, "q")
    assert second.values[0][2] != old
    with pytest.raises(SqlError, match="Could not find prepared statement"):
        call(runner, "sp_execute", old)


def test_a_reset_forgets_what_was_prepared(session: CannedSession) -> None:
    runner = StatementRunner(session)
    call(runner, "sp_prepare", None, None, "q")
    runner.forget()
    with pytest.raises(SqlError, match="Could not find prepared statement"):
        call(runner, "sp_execute", 1)


def test_prepared_statements_are_bounded(
    session: CannedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MAX_PREPARED_STATEMENTS", 2)
    runner = StatementRunner(session)
    call(runner, "sp_prepare", None, None, "q")
    call(runner, "sp_prepare", None, None, "q")
    with pytest.raises(SqlError, match="insufficient system memory"):
        call(runner, "sp_prepare", None, None, "q")
    call(runner, "sp_unprepare", 1)
    call(runner, "sp_prepare", None, None, "q")


@pytest.mark.parametrize("name", ["sp_prepare", "sp_prepexec", "sp_prepexecrpc", "sp_executesql"])
def test_calls_without_their_parameters(session: CannedSession, name: str) -> None:
    with pytest.raises(SqlError, match=r"expects parameter|was not supplied"):
        call(StatementRunner(session), name)
