"""Runs inside the peer's environment: its way from 1,000 changes to bronze, verdict and silver.

Imports nothing of ours. Reads one JSON line of settings; after each `go` it commits a batch in
its own in-memory source (untimed), works it off (timed) and prints one JSON line.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from pathlib import Path
from typing import Any, TextIO

from mssql_cdc import apply_changes, finalization, stream
from mssql_cdc.fake import FakeCdcDatabase
from peer_session import serve, start_spark  # type: ignore[import-not-found]

INSTANCE = "dbo_orders"
COLUMNS = (
    "order_id INT, customer_id INT, status STRING, priority STRING, clerk STRING,"
    " total DOUBLE, ship_priority INT, region INT, order_day STRING, comment STRING"
)
TRANSACTIONS = 5


class Orders:
    """The peer's own stand-in for a server, with one table of orders in it."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._random = random.Random(7)
        self._source = FakeCdcDatabase(
            str(folder), [INSTANCE], keys={INSTANCE: "order_id"}, columns={INSTANCE: COLUMNS}
        )
        self._rows = {key: self._row(key) for key in range(1, rows + 1)}
        self._next = rows + 1
        self._source.commit(INSTANCE, [(2, row) for row in self._rows.values()])
        # The load's change rows would be parsed again at every read, which no server does.
        self._source.cleanup(INSTANCE, self._source.idle())

    def commit(self, changes: int) -> None:
        """Inserts, updates and deletes as ours: 20, 70 and 10 of a hundred."""
        step = -(-changes // TRANSACTIONS)
        for first in range(0, changes, step):
            kinds = (number % 10 for number in range(first, min(first + step, changes)))
            self._source.commit(INSTANCE, [row for kind in kinds for row in self._change(kind)])
        self._source.idle()

    def _change(self, kind: int) -> list[tuple[int, dict[str, Any]]]:
        if kind < 2:
            row = self._row(self._next)
            self._next += 1
            self._rows[row["order_id"]] = row
            return [(2, row)]
        key = self._random.randrange(1, self._next)
        while key not in self._rows:
            key = self._random.randrange(1, self._next)
        if kind == 2:
            return [(1, self._rows.pop(key))]
        before = self._rows[key]
        after = {**before, "status": "P", "total": self._random.uniform(1, 1000)}
        self._rows[key] = after
        return [(3, before), (4, after)]

    def _row(self, key: int) -> dict[str, Any]:
        return {
            "order_id": key,
            "customer_id": self._random.randrange(10_000),
            "status": "O",
            "priority": "3-MEDIUM",
            "clerk": f"Clerk#{key % 1000:09d}",
            "total": self._random.uniform(1, 1000),
            "ship_priority": 0,
            "region": key % 25,
            "order_day": "2026-01-15",
            "comment": f"carefully packed requests {key}",
        }


class Pipeline:
    """The peer's calls as its README has them, with tables as paths."""

    def __init__(self, session: Any, folder: Path, source: Path) -> None:
        self._session = session
        self._folder = folder
        self._options = {
            "captureInstance": INSTANCE,
            "backend": "fake",
            "fakePath": str(source),
        }

    def work_off(self) -> dict[str, float]:
        """One scheduled call: stream what there is, move the verdict, apply to silver."""
        bronze, facts, control = (self._path(n) for n in ("bronze", "facts", "control"))
        times = [time.perf_counter()]
        query = stream(self._session, self._options).to_delta(
            bronze,
            app_id="orders-v1",
            checkpoint=str(self._folder / "checkpoint"),
            facts_table=facts,
            trigger={"availableNow": True},
            bootstrap=True,
        )
        query.awaitTermination()
        times.append(time.perf_counter())
        end = finalization.end_offset_from_progress(query.lastProgress)
        finalization.advance(self._session, control, bronze, end)
        times.append(time.perf_counter())
        apply_changes(
            self._session,
            bronze,
            self._path("silver"),
            capture_instance=INSTANCE,
            keys=["order_id"],
            control_table=control,
            facts_table=facts,
        )
        times.append(time.perf_counter())
        to_delta, advance, apply = (b - a for a, b in itertools.pairwise(times))
        return {
            "seconds": times[-1] - times[0],
            "to_delta": to_delta,
            "advance": advance,
            "apply_changes": apply,
        }

    def silver_rows(self) -> int:
        return int(self._session.read.format("delta").load(self._path("silver")).count())

    def _path(self, name: str) -> str:
        return str(self._folder / "lake" / name)


def main(commands: TextIO, answers: TextIO) -> None:
    settings = json.loads(commands.readline())
    folder = Path(settings["folder"])
    session = start_spark(settings["cores"])
    session.sparkContext.setLogLevel("ERROR")
    orders = Orders(folder / "source", settings["rows"])
    pipeline = Pipeline(session, folder, folder / "source")

    def answer(value: dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    answer({"bootstrap": pipeline.work_off(), "silver_rows": pipeline.silver_rows()})
    for line in commands:
        if line.strip() != "go":
            break
        orders.commit(settings["changes"])
        answer(pipeline.work_off())
    answer({"silver_rows": pipeline.silver_rows(), "source_rows": len(orders._rows)})
    session.stop()


if __name__ == "__main__":
    serve(main)
