"""Server cursors: opened, moved, closed, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdc_assets.sandbox.results import Message, OutputParameters, Parameter, SqlError, SqlType
from cdc_assets.sandbox.wire import cursors
from cdc_assets.sandbox.wire.requests import ProcedureCall
from cdc_assets.sandbox.wire.rpc import StatementRunner
from cdc_assets_tests.sandbox.harness import Client

INT = SqlType("int")
TEXT = SqlType("nvarchar", length=200)
STATIC, DYNAMIC, READ_ONLY, OPTIMISTIC = 8, 2, 1, 4
FIRST, NEXT, PREVIOUS, LAST, ABSOLUTE, RELATIVE, REFRESH, INFO = 1, 2, 4, 8, 16, 32, 128, 256


class Rpc:
    """Calls by RPC in a session of the engine."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.runner = StatementRunner(client.session)

    def call(self, name: str, *values: Any, outputs: tuple[int, ...] = ()) -> list[Any]:
        parameters = tuple(
            Parameter("", TEXT if isinstance(value, str) else INT, value, place in outputs)
            for place, value in enumerate(values)
        )
        results = self.runner.run(ProcedureCall(name, parameters, last=True))
        return [self.client.read(result) for result in results]

    def open(self, text: str, scroll: int = STATIC, *values: Any) -> tuple[int, ...]:
        """The cursor, what it became, and its count of rows."""
        options = (scroll, OPTIMISTIC, 0)
        declared = ("@P0 int",) if values else ()
        *_, outputs = self.call(
            "sp_cursoropen", 0, text, *options, *declared, *values, outputs=(0, 2, 3, 4)
        )
        assert isinstance(outputs, OutputParameters)
        return tuple(int(str(value)) for _, _, value in outputs.values)

    def fetch(self, cursor: int, kind: int, number: int = 0, count: int = 2) -> list[int]:
        [(_, rows)] = self.call("sp_cursorfetch", cursor, kind, number, count)
        assert all(row[-1] == 1 for row in rows)
        return [row[0] for row in rows]


@pytest.fixture(scope="module")
def rpc(shared: Client) -> Iterator[Rpc]:
    shared.run("CREATE TABLE c (id int NOT NULL PRIMARY KEY)")
    shared.run("INSERT c VALUES (1), (2), (3), (4), (5)")
    yield Rpc(shared)
    shared.run("DROP TABLE c")


def test_a_cursor_moves_over_its_rows(rpc: Rpc) -> None:
    cursor, scroll, concurrency, count = rpc.open("SELECT id FROM c ORDER BY id", DYNAMIC)
    assert (scroll, concurrency, count) == (STATIC, READ_ONLY, 5)
    moves = [
        *((NEXT, 0, [1, 2]), (NEXT, 0, [3, 4]), (REFRESH, 0, [3, 4]), (NEXT, 0, [5])),
        *((NEXT, 0, []), (PREVIOUS, 0, [4, 5]), (PREVIOUS, 0, [2, 3]), (PREVIOUS, 0, [1, 2])),
        *((PREVIOUS, 0, []), (NEXT, 0, [1, 2]), (LAST, 0, [4, 5]), (FIRST, 0, [1, 2])),
        *((ABSOLUTE, 3, [3, 4]), (ABSOLUTE, -1, [5]), (ABSOLUTE, 6, []), (ABSOLUTE, 0, [])),
        *((ABSOLUTE, 2, [2, 3]), (RELATIVE, 2, [4, 5]), (RELATIVE, -3, [1, 2])),
    ]
    for kind, number, rows in moves:
        assert rpc.fetch(cursor, kind, number) == rows, (kind, number)
    [found] = rpc.call("sp_cursorfetch", cursor, INFO, 0, 0, outputs=(2, 3))
    assert [value for *_, value in found.values] == [1, 5]


def test_a_cursor_is_of_the_moment_it_was_opened(rpc: Rpc) -> None:
    cursor, *_ = rpc.open("SELECT id FROM c WHERE id > @P0 ORDER BY id", STATIC, 3)
    rpc.client.run("INSERT c VALUES (6)")
    try:
        assert rpc.fetch(cursor, NEXT, count=9) == [4, 5]
    finally:
        rpc.client.run("DELETE c WHERE id = 6")


def test_a_prepared_cursor_runs_again_by_its_handle(rpc: Rpc) -> None:
    text = "SELECT id FROM c WHERE id >= @P0 ORDER BY id"
    first = rpc.call(
        "sp_cursorprepexec", 0, 0, "@P0 int", text, STATIC, READ_ONLY, 0, 4, outputs=(0, 1, 6)
    )
    values = [v for r in first if isinstance(r, OutputParameters) for *_, v in r.values]
    handle, cursor, count = values
    assert count == 2
    assert rpc.fetch(cursor, NEXT) == [4, 5]
    again = rpc.call("sp_cursorexecute", handle, 0, STATIC, READ_ONLY, 0, 5, outputs=(1, 4))
    other, count = (value for *_, value in again[-1].values)
    assert (other != cursor, count, rpc.fetch(other, FIRST)) == (True, 1, [5])
    rpc.call("sp_cursorunprepare", handle)
    with pytest.raises(SqlError, match="8179"):
        rpc.call("sp_cursorexecute", handle, 0, STATIC, READ_ONLY, 0, 5)


def test_statements_without_one_result_set_run_directly(rpc: Rpc) -> None:
    for text, sets in (("UPDATE c SET id = id", 0), ("SELECT id FROM c; SELECT 1", 2)):
        message, *results, outputs = rpc.call("sp_cursoropen", 0, text, 8, 1, 0, outputs=(0,))
        assert isinstance(message, Message)
        assert message.number == 16954
        assert len([r for r in results if isinstance(r, tuple)]) == sets
        assert [value for *_, value in outputs.values] == [0]


def test_what_is_closed_or_never_was_is_refused(rpc: Rpc) -> None:
    cursor, *_ = rpc.open("SELECT id FROM c")
    rpc.call("sp_cursorclose", cursor)
    for name in ("sp_cursorfetch", "sp_cursorclose", "sp_cursoroption"):
        with pytest.raises(SqlError, match="16909"):
            rpc.call(name, cursor)
    kept, *_ = rpc.open("SELECT id FROM c")
    rpc.runner.forget()
    with pytest.raises(SqlError, match="16909"):
        rpc.fetch(kept, NEXT)


def test_a_cursor_changes_nothing(rpc: Rpc) -> None:
    cursor, *_ = rpc.open("SELECT id FROM c")
    with pytest.raises(SqlError, match="16929"):
        rpc.call("sp_cursor", cursor, 33, 1, "c", 7)
    with pytest.raises(SqlError, match="16902"):
        rpc.fetch(cursor, 3)


def test_an_error_of_the_statement_is_its_own(rpc: Rpc) -> None:
    for text, number in (("SELECT id FROM nothing", "208"), ("SELECT 1 / (id - 5) FROM c", "8134")):
        with pytest.raises(SqlError, match=f"Msg {number},"):
            rpc.open(text)


def test_what_cursors_hold_is_bounded(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "MAX_CURSOR_BYTES", 8)
    with pytest.raises(SqlError, match="701"):
        rpc.open("SELECT id FROM c")
    monkeypatch.undo()
    monkeypatch.setattr(cursors, "MAX_CURSORS", 0)
    with pytest.raises(SqlError, match="701"):
        rpc.open("SELECT id FROM c")
