"""The workload at work: its changes sent to a running engine at a rate, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from cdc_assets.sandbox.engine.backend import Engine
from cdc_assets.sandbox.engine.session import EngineSession
from cdc_assets.sandbox.results import ResultSet, SqlError
from cdc_assets.sandbox.workload import tables
from cdc_assets.sandbox.workload.changes import Changes, Step
from cdc_assets.sandbox.workload.load import administrator, run

# Somebody else changed the same rows, or took a key: the transaction is given up, the rest goes on.
_GIVEN_UP = frozenset({1205, 1222, 2601, 2627, 3960})
_WITHOUT_END = 1 << 62


@dataclass(slots=True)
class Done:
    """What was sent: batches, and those given up because another client was in the way."""

    batches: int = 0
    given_up: int = 0


def work(
    engine: Engine,
    seed: int,
    *,
    transactions: int | None = None,
    per_second: float | None = None,
    stop: threading.Event | None = None,
) -> Done:
    """Send `transactions` (None: until `stop`), at most `per_second` of them (None: no limit).

    On tables that nobody changed since they were loaded with one seed, the same seed here sends
    the same batches; else they are made for the orders that are there.
    """
    ending, done = stop or threading.Event(), Done()
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(closing(administrator(engine, tables.DATABASE))) for _ in range(2)
        ]
        steps = _changes(sessions[0], seed).steps(transactions or _WITHOUT_END)
        for step in _paced(steps, per_second, ending):
            done.batches += 1
            try:
                run(sessions[step.connection], step.text)
            except SqlError as error:
                if error.number not in _GIVEN_UP:
                    raise
                done.given_up += 1
                sessions[step.connection].abandon()
    return done


def _changes(session: EngineSession, seed: int) -> Changes:
    orders = sorted(_column(session, "SELECT order_id FROM dbo.orders"))
    (customers,) = _column(session, "SELECT COUNT(*) FROM dbo.customer")
    return Changes(tables.Scale(max(1, customers), len(orders)), seed, orders=orders)


def _column(session: EngineSession, text: str) -> list[int]:
    found: list[int] = []
    for result in session.execute(text):
        if isinstance(result, ResultSet):
            for batch in result.batches:
                found += batch.column(0).to_pylist()
    return found


def _paced(
    steps: Iterator[Step], per_second: float | None, ending: threading.Event
) -> Iterator[Step]:
    """Steps as their time comes: the n-th transaction n / `per_second` after the beginning."""
    began, sent = time.monotonic(), 0
    for step in steps:
        if step.connection == 0 and per_second:
            if ending.wait(max(0.0, began + sent / per_second - time.monotonic())):
                return
            sent += 1
        elif ending.is_set():
            return
        yield step
