"""Reading the ranges of a plan, several at a time, and counting what passes."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_assets.planning.plans import AppendPlan
from cdc_assets.planning.ranges import read_columns
from cdc_assets.sqlserver.connection import Connections
from cdc_assets.sqlserver.read import read_range

BATCHES_WAITING_MAX = 4
"""Batches that wait for the writer while several connections read; bounds the memory."""


@dataclass(slots=True)
class Reading:
    """One attempt to read all ranges of a plan; counts what passes and keeps the first error."""

    connections: Connections
    plan: AppendPlan
    large_value_bytes: int
    ready: Callable[[], None]
    rows: int = 0
    bytes: int = 0
    waits: list[int | None] = field(default_factory=list)
    error: Exception | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def batches(self) -> Generator[pa.RecordBatch]:
        """Non-empty batches of all ranges, in no order between ranges; ends when all is ready."""
        several = len(self.plan.ranges) > 1
        read = [column.name for column in read_columns(self.plan.columns, self.plan.ranges)]
        try:
            for batch in self._concurrent() if several else self._range(0):
                if batch.num_rows:
                    self.rows += batch.num_rows
                    self.bytes += sum(batch.column(name).nbytes for name in read)
                    yield batch
            self.ready()
        except Exception as error:
            self.error = self.error or error
            raise
        finally:
            self._stop.set()

    def _range(self, index: int) -> Iterator[pa.RecordBatch]:
        return read_range(
            self.connections.source,
            self.plan.ranges[index],
            self.plan.columns,
            large_value_bytes=self.large_value_bytes,
            connections=self.connections,
            waited=self.waits.append,
        )

    def _concurrent(self) -> Iterator[pa.RecordBatch]:
        waiting: queue.Queue[pa.RecordBatch | BaseException | None]
        waiting = queue.Queue(BATCHES_WAITING_MAX)

        def offer(item: pa.RecordBatch | BaseException | None) -> None:
            while not self._stop.is_set():
                with contextlib.suppress(queue.Full):
                    waiting.put(item, timeout=0.1)
                    return

        def read(index: int) -> None:
            try:
                for batch in self._range(index):
                    offer(batch)
                    if self._stop.is_set():
                        return
                offer(None)
            except BaseException as error:  # noqa: BLE001 - the consumer waits for each thread
                offer(error)

        threads = [
            threading.Thread(target=read, args=(i,), name=f"read-{self.plan.table}-{i}")
            for i in range(len(self.plan.ranges))
        ]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                item = waiting.get()  # no thread ends without its rows, its end or its error
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    running -= 1
                else:
                    yield item
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
