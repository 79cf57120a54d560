"""Ten connections at once: different reads with right answers, while one writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import arrow_odbc
import pyarrow as pa
import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.sandbox.wire.clients import driver, read

CONNECTIONS = 10
ACCOUNTS = 2_000
TOTAL = 100 * ACCOUNTS
READS = 8


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("together") / "state") as running:
        running.execute(
            "CREATE DATABASE sales; USE sales;"
            " CREATE TABLE account"
            " (id int NOT NULL PRIMARY KEY, amount int NOT NULL, moves int NOT NULL);"
            " CREATE TABLE still (id int NOT NULL PRIMARY KEY, name nvarchar(20) NOT NULL);"
            " EXEC sys.sp_cdc_enable_db;"
            " EXEC sys.sp_cdc_enable_table N'dbo', N'account', @role_name = NULL",
            "master",
        )
        for start in range(0, ACCOUNTS, 1_000):
            ids = range(start, start + 1_000)
            running.execute("INSERT account VALUES " + ", ".join(f"({i}, 100, 0)" for i in ids))
            running.execute("INSERT still VALUES " + ", ".join(f"({i}, N'name {i}')" for i in ids))
        yield running


def _accounts(table: pa.Table) -> None:
    assert table.num_rows == ACCOUNTS
    assert sum(table.column("amount").to_pylist()) == TOTAL


def _names(table: pa.Table) -> None:
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": i, "name": f"name {i}"} for i in range(ACCOUNTS)]


def _is(**values: object) -> Callable[[pa.Table], None]:
    def check(table: pa.Table) -> None:
        assert table.to_pylist() == [values]

    return check


def _pairs(table: pa.Table) -> None:
    """Each transaction has changed two rows, and each row before and after."""
    counts = table.column("n").to_pylist()
    assert all(count in (2, 4) for count in counts), counts


READERS: tuple[tuple[str, list[str | None] | None, Callable[[pa.Table], None]], ...] = (
    ("SELECT id, amount FROM account", None, _accounts),
    ("SELECT id, amount FROM account ORDER BY amount", None, _accounts),
    ("SELECT SUM(amount) AS total FROM account", None, _is(total=TOTAL)),
    ("SELECT id, name FROM still", None, _names),
    ("SELECT name FROM still WHERE id = ?", ["17"], _is(name="name 17")),
    (
        "SELECT COUNT(*) AS n FROM account AS a JOIN still AS s ON s.id = a.id",
        None,
        _is(n=ACCOUNTS),
    ),
    (
        "SELECT [__$start_lsn] AS l, COUNT(*) AS n FROM cdc.dbo_account_CT"
        " WHERE [__$operation] > 2 GROUP BY [__$start_lsn]",
        None,
        _pairs,
    ),
    ("SELECT SUM(moves) % 2 AS odd FROM account", None, _is(odd=0)),
    (
        "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('still') AND column_id = 1",
        None,
        _is(name="id"),
    ),
)


def test_ten_connections_at_once(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(sandbox.ca_file))
    text = f"Driver={driver()};{sandbox.connection_string(admin=True)}"
    connections = [arrow_odbc.connect(text) for _ in range(CONNECTIONS)]
    together = threading.Barrier(CONNECTIONS, timeout=30)
    over = threading.Event()

    def write(connection: arrow_odbc.Connection) -> int:
        together.wait()
        moved = 0
        while not over.is_set():
            low, high = moved % ACCOUNTS, (moved * 7 + 1) % ACCOUNTS
            connection.execute(
                "BEGIN TRAN;"
                f" UPDATE account SET amount = amount - 1, moves = moves + 1 WHERE id = {low};"
                f" UPDATE account SET amount = amount + 1, moves = moves + 1 WHERE id = {high};"
                " COMMIT"
            )
            moved += 1
        return moved

    def look(connection: arrow_odbc.Connection, number: int) -> None:
        query, parameters, check = READERS[number]
        together.wait()
        for _ in range(READS):
            check(read(connection, query, parameters))

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        writing = pool.submit(write, connections[-1])
        looks = [pool.submit(look, connections[n], n) for n in range(CONNECTIONS - 1)]
        try:
            for done in looks:
                done.result(60)
        finally:
            over.set()
        assert writing.result(30) > 0
