"""Silver's MERGE of a few changes into many rows: bronze is written here, both sides apply it.

No server: an apply reads bronze and writes silver, whoever filled bronze. Ours and the peer's read
the same bronze, each into a silver and a control table of its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.child import JsonChild
from benchmarks.harness import Action, Samples
from benchmarks.orders import INSTANCE
from benchmarks.peer.environment import TUNING, peer_child
from cdc_assets.contract import BRONZE, Column, Operation, bronze_columns
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.tables import query
from cdc_assets.lake.upkeep import maintain
from cdc_assets.lsn import Lsn
from cdc_assets.planning.plans import MaintainPlan
from cdc_assets.settings.upkeep import SILVER_FILE_MB
from cdc_assets.silver.by_name import apply_changes
from cdc_assets.sqlserver.read import arrow_schema

CHANGES = 10_000
"""Keys of one batch: nine of ten are updated, which is two rows, and one is deleted."""
KEY = "order_id"
ROWS_PER_BATCH = 500_000
SNAPSHOT = 1_000
NOON = datetime(2026, 11, 30, 12)
CAPTURED = (
    Column(KEY, "INT"),
    Column("customer_id", "INT"),
    Column("status", "STRING"),
    Column("total", "DECIMAL(15,2)"),
    Column("order_day", "DATE"),
    Column("priority", "STRING"),
    Column("clerk", "STRING"),
    Column("ship_priority", "INT"),
    Column("updated_at", "TIMESTAMP_NTZ"),
    Column("comment", "STRING"),
)
CHECK = ("count(*)", f"sum(CAST({KEY} AS BIGINT) * CAST(customer_id % 1000 AS BIGINT))")
"""What is compared of two silvers: expressions that Spark and DataFusion read alike."""

_SCHEMA = arrow_schema(bronze_columns(CAPTURED))
_PEER_SECONDS_MAX = 900

Choose = Callable[[random.Random, int], np.ndarray[Any, Any]]
"""Which keys of a table with so many rows a batch changes."""


def clustered(chance: random.Random, rows: int) -> np.ndarray[Any, Any]:
    """Keys that follow each other, anywhere."""
    count = min(CHANGES, rows)
    first = chance.randrange(1, rows - count + 2)
    return np.arange(first, first + count)


def scattered(chance: random.Random, rows: int) -> np.ndarray[Any, Any]:
    """Keys from all over the table."""
    return np.array(sorted(chance.sample(range(1, rows + 1), min(CHANGES, rows))))


@dataclass
class Bronze:
    """A bronze table with a whole snapshot, and batches of changes after it."""

    uri: str
    rows: int
    choose: Choose
    _chance: random.Random = field(default_factory=lambda: random.Random(7))
    _batches: int = 0

    def write(self) -> None:
        """Create it where it is missing and write a whole snapshot."""
        self._batches += 1
        ensure_table(self.uri, BRONZE, {}, bronze_columns(CAPTURED))
        firsts = range(1, self.rows + 1, ROWS_PER_BATCH)
        batches = (
            _rows(
                np.arange(f, min(f + ROWS_PER_BATCH, self.rows + 1)),
                Operation.SNAPSHOT,
                self._batches,
            )
            for f in firsts
        )
        write_deltalake(
            self.uri, pa.RecordBatchReader.from_batches(_SCHEMA, batches), mode="append"
        )

    def change(self) -> None:
        """Append a batch of changes."""
        self._batches += 1
        keys = self.choose(self._chance, self.rows)
        gone, kept = keys[::10], np.delete(keys, np.s_[::10])
        parts = ((kept, Operation.BEFORE), (kept, Operation.AFTER), (gone, Operation.DELETE))
        rows = [_rows(k, operation, self._batches) for k, operation in parts]
        write_deltalake(self.uri, pa.Table.from_batches(rows, _SCHEMA), mode="append")


def _rows(keys: np.ndarray[Any, Any], operation: Operation, batch: int) -> pa.RecordBatch:
    """Rows of one kind, each batch at an LSN of its own."""
    count, is_snapshot = len(keys), operation is Operation.SNAPSHOT
    lsn = str(Lsn.of_int(SNAPSHOT + batch))
    known: dict[str, Any] = {
        "_capture_instance": pa.repeat(INSTANCE, count),
        "_start_lsn": pa.repeat(lsn, count),
        "_operation": np.full(count, int(operation), np.int32),
        "_commit_ts": pa.repeat(pa.scalar(NOON, pa.timestamp("us")), count),
        KEY: keys.astype(np.int32),
        "customer_id": ((keys * 7919 + batch) % 10_000).astype(np.int32),
        "status": pa.repeat("O", count),
        "total": pa.array(keys % 100_000, pa.int32()).cast(pa.decimal128(15, 2)),
        "order_day": pa.repeat(pa.scalar(date(2026, 1, 15)), count),
        "priority": pa.repeat("3-MEDIUM", count),
        "clerk": pa.array([f"Clerk#{key % 1000:09d}" for key in keys.tolist()]),
        "ship_priority": np.zeros(count, np.int32),
        "updated_at": pa.repeat(pa.scalar(NOON, pa.timestamp("us")), count),
        "comment": pa.array([f"carefully packed requests {key}" for key in keys.tolist()]),
    }
    if is_snapshot:
        known["_snapshot"] = known["_start_lsn"]
    else:
        known["_command_id"] = np.ones(count, np.int32)
        known["_seqval"] = pa.array([str(Lsn.of_int(int(key))) for key in keys])
        known["_batch_id"] = np.full(count, batch, np.int32)
    columns = [
        pa.array(known[f.name], f.type) if f.name in known else pa.nulls(count, f.type)
        for f in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


@dataclass
class Ours:
    """Our silver of a bronze: `apply_changes` without Spark, the arrow engine in this process."""

    bronze: Bronze
    folder: Path
    rebuild_seconds: float = 0.0

    @classmethod
    def of(cls, folder: Path, rows: int, choose: Choose) -> Ours:
        """One of a new bronze with so many rows."""
        bronze = Bronze(str(folder / "bronze"), rows, choose)
        bronze.write()
        return cls(bronze, folder)

    @property
    def silver(self) -> str:
        """Where it is."""
        return str(self.folder / "silver")

    def rebuild(self) -> None:
        """The first apply; then upkeep, which orders files by key where that is due."""
        self.rebuild_seconds = self.apply()
        plan = MaintainPlan("silver", self.silver, (KEY,), SILVER_FILE_MB << 20)
        maintain(plan, {})

    def apply(self) -> float:
        """One call, and its seconds."""
        started = time.perf_counter()
        apply_changes(
            None,
            self.bronze.uri,
            self.silver,
            capture_instance=INSTANCE,
            keys=[KEY],
            control_table=str(self.folder / "control"),
        )
        return time.perf_counter() - started

    def found(self) -> list[int]:
        """What `CHECK` finds."""
        row = query(f"SELECT {', '.join(CHECK)} FROM s", s=DeltaTable(self.silver)).to_pylist()[0]
        return [int(value) for value in row.values()]

    def described(self, samples: Samples) -> Mapping[str, Any]:
        """What the row says of it."""
        table = DeltaTable(self.silver)
        metrics = next(h["operationMetrics"] for h in table.history() if h["operation"] == "MERGE")
        return {
            **samples.described(),
            "rows": self.bronze.rows,
            "rebuild_s": round(self.rebuild_seconds, 1),
            "files": len(table.file_uris()),
            "last_merge": {
                name: int(metrics[f"num_target_files_{name}"])
                for name in ("scanned", "skipped_during_scan", "removed", "added")
            },
        }


class Peer:
    """The peer's silver of the same bronze."""

    def __init__(self, child: JsonChild, ours: Ours) -> None:
        self._child = child
        self._ours = ours
        self.rebuild_seconds = 0.0
        self.found: list[int] = []

    def rebuild(self) -> None:
        """Its first apply."""
        self.rebuild_seconds = self.apply()

    def apply(self) -> float:
        """One call, and its seconds; raises ValueError where it is not what ours is."""
        self._child.tell("go")
        answer = self._child.answer()
        self.found = [int(value) for value in answer["found"]]
        return float(answer["seconds"])

    def described(self, samples: Samples) -> Mapping[str, Any]:
        """What the row says of it; raises ValueError where its silver is not what ours is.

        A time of something else would mean nothing.
        """
        if self.found != self._ours.found():
            raise ValueError(f"silvers differ: ours {self._ours.found()}, the peer's {self.found}")
        rebuild = round(self.rebuild_seconds, 1)
        return {**samples.described(), "rebuild_s": rebuild, "tuning": TUNING}


@contextlib.contextmanager
def warm_peer(folder: Path, ours: Ours) -> Iterator[Peer]:
    """Start the peer on our bronze and let it build its silver.

    Raises `PeerUnavailableError` and `ChildError`.
    """
    settings = {
        "folder": str(folder),
        "bronze": ours.bronze.uri,
        "instance": INSTANCE,
        "keys": [KEY],
        "check": CHECK,
        "cores": len(os.sched_getaffinity(0)),
    }
    with peer_child("merge_child.py", folder, answer_seconds_max=_PEER_SECONDS_MAX) as child:
        child.tell(json.dumps(settings))
        peer = Peer(child, ours)
        peer.rebuild()
        yield peer


def in_rounds(bronzes: Sequence[Bronze], applies: Mapping[str, Action]) -> dict[str, Action]:
    """Actions that all apply the same batch: the first one of a round has it written, untimed."""
    done: set[str] = set(applies)

    def action(name: str) -> float:
        if name in done:
            done.clear()
            for bronze in bronzes:
                bronze.change()
        done.add(name)
        return applies[name]()

    return {name: functools.partial(action, name) for name in applies}
