"""Commit, rollback and concurrent readers and writers: nothing torn, LSNs in commit order.

`CDC_TEST_SOAK_SECONDS` says how long they work; a few seconds without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.sandbox.wire import soak

SECONDS_VARIABLE = "CDC_TEST_SOAK_SECONDS"
SECONDS = float(os.environ.get(SECONDS_VARIABLE, "5"))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    state = tmp_path_factory.mktemp("soak") / "state"
    with Sandbox(state, capture_interval_seconds=0.3) as running:
        soak.prepare(running)
        yield running


@pytest.mark.timeout(SECONDS + 240)
def test_no_torn_read_and_lsns_in_the_order_of_commits(
    sandbox: Sandbox, record_property: pytest.RecordProperty
) -> None:
    seen = soak.run(sandbox, SECONDS, writers=3, seed=20261130)
    if seen.failed:
        raise seen.failed[0]
    figures = (
        f"{SECONDS:g} s: {len(seen.commits)} commits, {len(seen.rolled_back)} rolled back "
        f"({seen.conflicts} conflicts), reads {dict(seen.reads)}, "
        f"largest lag {max(seen.lags, default=0):.2f} s"
    )
    record_property("figures", figures)
    print(figures)
    assert seen.torn == []
    assert seen.commits and seen.rolled_back
    assert set(seen.reads) == {"odbc", "pytds", "snapshot"}
    sandbox.execute("EXEC sandbox.capture_now", soak.DATABASE)
    with soak.client(sandbox) as cursor:
        journal = _rows(cursor, soak.CHANGES, "writer, number", "journal")
        accounts = _rows(cursor, soak.CHANGES, "id, balance", "accounts")
        cursor.execute("SELECT id, balance FROM accounts")
        balances = dict(cursor.fetchall())
    lsn_of = {(writer, number): lsn for lsn, _, writer, number in journal}
    # Every commit that its client knows of is there, and nothing that was rolled back.
    assert set(lsn_of) == {(c.writer, c.number) for c in seen.commits}
    assert len(journal) == sum(c.parts for c in seen.commits)
    _assert_order(lsn_of, seen.commits)
    # The changes, one after the other, are the table.
    replayed: dict[int, int] = {}
    for _, op, account, balance in accounts:
        if op == 3:
            assert replayed[account] == balance
        else:
            replayed[account] = balance
    assert replayed == balances


def _rows(cursor: Any, text: str, columns: str, table: str) -> list[tuple[Any, ...]]:
    cursor.execute(text.format(columns, table, soak.ZERO, "0x" + "F" * 20))
    return [tuple(row) for row in cursor.fetchall()]


def _assert_order(lsn_of: dict[tuple[int, int], str], commits: list[soak.Commit]) -> None:
    """A commit that was known before another was asked for has the lower LSN."""
    ordered = sorted(commits, key=lambda c: lsn_of[(c.writer, c.number)])
    assert len({lsn_of[(c.writer, c.number)] for c in commits}) == len(commits)
    latest = 0.0
    for commit in ordered:
        assert commit.known >= latest, "a commit came before one that was known earlier"
        latest = max(latest, commit.asked)


def test_capture_lags_and_stops_when_told_to(sandbox: Sandbox) -> None:
    newest = "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)"
    seen = "SELECT COUNT(*) FROM cdc.dbo_accounts_CT WHERE id = 100"
    number = sandbox.engine.store.catalog.databases[soak.DATABASE].id

    def execute(text: str) -> None:
        sandbox.execute(text, soak.DATABASE)

    def steps() -> tuple[int, int]:
        last = sandbox.engine.store.scans.sessions(number)[-1]
        return last.number, last.empty

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "capture did not move"
            time.sleep(0.02)

    def quiet() -> bool:
        last = steps()
        time.sleep(0.5)  # ten of the job's looks at what is due
        return steps() == last

    with soak.client(sandbox) as cursor:

        def value(text: str = newest) -> Any:
            cursor.execute(text)
            return cursor.fetchone()[0]

        execute("EXEC sys.sp_cdc_stop_job; EXEC sandbox.capture_now")
        stopped = value()
        cursor.execute("INSERT accounts VALUES (100, 0)")
        execute("EXEC sandbox.set_capture @interval_seconds = 0.05")
        time.sleep(0.3)  # six steps of a job that does not run
        assert (value(), value(seen)) == (stopped, 0)
        execute("EXEC sys.sp_cdc_start_job")
        until(lambda: value() > stopped)
        assert value(seen) == 1
        # One step at once, the next one in an hour: what is committed after it has to wait.
        execute("EXEC sandbox.set_capture @interval_seconds = 3600")
        until(quiet)
        captured = value()
        cursor.execute("DELETE accounts WHERE id = 100")
        time.sleep(0.3)
        assert (value(), value(seen)) == (captured, 1)
        execute("EXEC sandbox.set_capture @interval_seconds = 0.05")
        until(lambda: value() > captured)
        assert value(seen) == 2
