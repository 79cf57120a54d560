"""Writers and readers at once, for some seconds, and what must hold meanwhile and afterwards.

Writers move amounts between accounts in transactions of several statements and write each
transaction's parts into a journal; some roll back. So at every moment the accounts' sum is what it
was, and a transaction's parts are all there or none is.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import arrow_odbc
import pytds
from arrow_odbc import TextEncoding

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.sandbox.wire.clients import driver

ACCOUNTS = 24
START = 1000
DATABASE = "bank"
# What a client does about these is to run its transaction again.
RETRIED = frozenset({1205, 1222, 3960})


@dataclass(frozen=True)
class Commit:
    """A transaction that its client knows to be committed, and when it asked and knew."""

    writer: int
    number: int
    parts: int
    asked: float
    known: float


@dataclass
class Seen:
    """What the threads of a run found."""

    commits: list[Commit] = field(default_factory=list)
    rolled_back: list[tuple[int, int]] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    conflicts: int = 0
    torn: list[str] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    """Seconds by which the change tables' newest commit lay behind the newest known one."""


def prepare(sandbox: Sandbox) -> None:
    sandbox.execute(f"CREATE DATABASE {DATABASE}", "master")
    sandbox.execute(
        "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON;"
        "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL);"
        "CREATE TABLE journal (writer int NOT NULL, number int NOT NULL, part int NOT NULL, "
        "parts int NOT NULL, amount int NOT NULL, PRIMARY KEY (writer, number, part));"
        "EXEC sys.sp_cdc_enable_db;"
        + "".join(
            f"EXEC sys.sp_cdc_enable_table 'dbo', '{name}', NULL, @supports_net_changes = 0;"
            for name in ("accounts", "journal")
        )
        + "INSERT accounts VALUES "
        + ", ".join(f"({i}, {START})" for i in range(ACCOUNTS)),
        DATABASE,
    )


@contextlib.contextmanager
def client(sandbox: Sandbox) -> Iterator[Any]:
    connection = pytds.connect(
        "127.0.0.1",
        port=sandbox.port,
        user="sa",
        password=sandbox.admin_password,
        database=DATABASE,
        autocommit=True,
    )
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


# --- writers -----------------------------------------------------------------------------------


def write(sandbox: Sandbox, writer: int, seed: int, seen: Seen, stop: threading.Event) -> None:
    """Transactions one after the other; every fifth is rolled back."""
    chance, number = random.Random(f"{seed}/{writer}"), 0
    with client(sandbox) as cursor:
        while not stop.is_set():
            number += 1
            parts = chance.randint(2, 4)
            chosen = chance.sample(range(ACCOUNTS), parts)
            amounts = [chance.randint(1, 50) for _ in chosen[1:]]
            amounts.append(-sum(amounts))
            try:
                cursor.execute("BEGIN TRAN")
                for part, (account, amount) in enumerate(zip(chosen, amounts, strict=True)):
                    cursor.execute(
                        f"UPDATE accounts SET balance = balance + {amount} WHERE id = {account}"
                    )
                    cursor.execute(
                        f"INSERT journal VALUES ({writer}, {number}, {part}, {parts}, {amount})"
                    )
                if chance.random() < 0.2:
                    cursor.execute("ROLLBACK")
                    seen.rolled_back.append((writer, number))
                    continue
                asked = time.monotonic()
                cursor.execute("COMMIT")
                seen.commits.append(Commit(writer, number, parts, asked, time.monotonic()))
            except pytds.Error as error:
                if getattr(error, "number", None) not in RETRIED:
                    raise
                seen.conflicts += 1
                seen.rolled_back.append((writer, number))
                cursor.execute("IF @@TRANCOUNT > 0 ROLLBACK")


# --- readers -----------------------------------------------------------------------------------

TOTAL = "SELECT SUM(balance) FROM accounts"
PARTS = (
    "SELECT writer, number, COUNT(*) AS found, MAX(parts) AS parts, SUM(amount) AS amount "
    "FROM journal GROUP BY writer, number HAVING COUNT(*) <> MAX(parts) OR SUM(amount) <> 0"
)
HALF = "(SELECT SUM(balance) - COUNT(*) * {0} FROM accounts WHERE id {1} 12)"
BOTH = f"SELECT {HALF.format(START, '<')} AS low, {HALF.format(START, '>=')} AS high"
CHANGES = (
    "SELECT CONVERT(varchar(22), [__$start_lsn], 1) AS lsn, [__$operation] AS op, {} FROM "
    "cdc.dbo_{}_CT WHERE [__$start_lsn] > {} AND [__$start_lsn] <= {} "
    "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
)
MAX_LSN = "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)"
ZERO = "0x" + "0" * 20


Query = Callable[[str], list[tuple[Any, ...]]]


def check_tables(query: Query, seen: Seen) -> None:
    ((total,),) = query(TOTAL)
    if total != ACCOUNTS * START:
        seen.torn.append(f"the accounts' sum was {total}")
    ((low, high),) = query(BOTH)
    if low + high:
        seen.torn.append(f"the halves differed by {low} and {high}")
    if torn := query(PARTS):
        seen.torn.append(f"parts of a transaction: {torn[:3]}")


def check_changes(query: Query, since: str, seen: Seen) -> str:
    """Each commit's changes are whole; gives the LSN up to which they were read."""
    newest = max((c.known for c in list(seen.commits)), default=0.0)
    ((upto,),) = query(MAX_LSN)
    if upto is None or upto <= since:
        return since
    sums: defaultdict[str, int] = defaultdict(int)
    for lsn, op, _, balance in query(CHANGES.format("id, balance", "accounts", since, upto)):
        sums[lsn] += {1: -balance, 2: balance, 3: -balance, 4: balance}[op]
    found: defaultdict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for lsn, _, *part in query(
        CHANGES.format("writer, number, parts, amount", "journal", since, upto)
    ):
        found[lsn].append(tuple(part))
    for lsn, rows in found.items():
        writer, number, parts, _ = rows[0]
        if {row[:3] for row in rows} != {(writer, number, parts)} or len(rows) != parts:
            seen.torn.append(f"commit {lsn} has the journal's {rows}")
        if sums.pop(lsn, None) != 0:
            seen.torn.append(f"commit {lsn} changes the accounts' sum")
    sums.pop(next(iter(sums), ""), None) if since == ZERO else None  # the rows of the beginning
    if sums:
        seen.torn.append(f"commits without a journal: {dict(sums)}")
    captured = {row[:2] for rows in found.values() for row in rows}
    known = max(
        (c.known for c in list(seen.commits) if (c.writer, c.number) in captured), default=0
    )
    if known and newest > known:
        seen.lags.append(newest - known)
    return str(upto)


def read_with_odbc(sandbox: Sandbox, seen: Seen, stop: threading.Event) -> None:
    text = sandbox.connection_string(DATABASE, admin=True)
    connection = arrow_odbc.connect(f"Driver={driver()};{text};TrustServerCertificate=yes")

    def query(sql: str) -> list[tuple[Any, ...]]:
        reader = connection.read_arrow_batches(
            sql, batch_size=1000, payload_text_encoding=TextEncoding.UTF16
        )
        table = reader.into_pyarrow_record_batch_reader().read_all()
        return [tuple(row.values()) for row in table.to_pylist()]

    since = ZERO
    while not stop.is_set():
        check_tables(query, seen)
        since = check_changes(query, since, seen)
        seen.reads["odbc"] += 1


def read_with_pytds(sandbox: Sandbox, seen: Seen, stop: threading.Event) -> None:
    since = ZERO
    with client(sandbox) as cursor:

        def query(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

        while not stop.is_set():
            check_tables(query, seen)
            since = check_changes(query, since, seen)
            seen.reads["pytds"] += 1


def read_in_a_snapshot(sandbox: Sandbox, seen: Seen, stop: threading.Event) -> None:
    """Under SNAPSHOT two statements see the same rows, whatever is committed between them."""
    with client(sandbox) as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
        while not stop.is_set():
            cursor.execute("BEGIN TRAN")
            found = []
            for _ in range(2):
                cursor.execute("SELECT id, balance FROM accounts ORDER BY id")
                found.append(cursor.fetchall())
                cursor.execute("SELECT COUNT(*) FROM journal")
                found.append(cursor.fetchall())
            cursor.execute("COMMIT")
            if found[:2] != found[2:]:
                seen.torn.append("a snapshot changed")
            seen.reads["snapshot"] += 1


# --- a run -------------------------------------------------------------------------------------


def run(sandbox: Sandbox, seconds: float, *, writers: int, seed: int) -> Seen:
    """Let writers and readers work for some seconds; the first failure ends all."""
    seen, stop = Seen(), threading.Event()
    work: list[Callable[[], None]] = [
        *(
            lambda number=number: write(sandbox, number, seed, seen, stop)  # type: ignore[misc]
            for number in range(writers)
        ),
        lambda: read_with_odbc(sandbox, seen, stop),
        lambda: read_with_pytds(sandbox, seen, stop),
        lambda: read_in_a_snapshot(sandbox, seen, stop),
    ]

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            seen.failed.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(60)
    if any(thread.is_alive() for thread in threads):
        raise AssertionError("a thread of the run did not end")
    return seen
