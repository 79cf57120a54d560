"""The most memory that a whole snapshot takes: of many rows, and of values of megabytes each."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROUNDS, Benchmark, Comparison, Context, Figure
from benchmarks.orders import COLUMNS, INSTANCE, NAMES, TABLE
from benchmarks.snapshot_child import snapshot_child
from benchmarks.snapshots import CONNECTIONS, into_folders
from benchmarks.source import Source, running_source
from cdc_assets.engines.arrow import BATCHES_WAITING_MAX
from cdc_assets.lake.files import ROW_GROUP_BYTES
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START
from cdc_assets.sqlserver.read import next_large_value_bytes

FEW, MANY = 2_000_000, 20_000_000
VALUES = 100
VALUE_BYTES, SMALL_BYTES = 5 << 20, 10
HOW = (
    "the product's own process, a new one each time: VmHWM after one sync into an empty lake,"
    " arrow engine; the server is not counted"
)

_FEW, _SMALL, _LARGE = "bench_few", "bench_small", "bench_large"
Peaks = Mapping[str, Sequence[float]]


def run(context: Context) -> Sequence[Figure]:
    """Few rows and many of one shape, then small values and large ones, by turns."""
    few, many = context.rows(FEW), context.rows(MANY)
    with running_source(context.folder / "sandbox") as source:
        source.load(many, captured=False)
        source.execute(*_fewer(source, few))
        for table, length in ((_SMALL, SMALL_BYTES), (_LARGE, VALUE_BYTES)):
            source.execute(*_documents(source, table, length))
        rows = _by_turns(source, context.folder, {f"dbo_{_FEW}": few, INSTANCE: many})
        values = _by_turns(
            source, context.folder, {f"dbo_{_SMALL}": VALUES, f"dbo_{_LARGE}": VALUES}
        )
    return [
        _of_rows(rows, few, many),
        _of_values(values[f"dbo_{_SMALL}"], values[f"dbo_{_LARGE}"]),
    ]


def _of_rows(peaks: Peaks, few: int, many: int) -> Figure:
    small, large = peaks[f"dbo_{_FEW}"], peaks[INSTANCE]
    details = {
        "rows": {"few": few, "many": many},
        "columns": len(COLUMNS),
        "connections": CONNECTIONS,
        "few": _told(small),
        "many": _told(large),
        "measured": HOW,
    }
    return Figure(statistics.median(b / a for a, b in zip(small, large, strict=True)), details)


def _of_values(small: Sequence[float], large: Sequence[float]) -> Figure:
    """The cap is what the named limits allow, on top of the same sync with nothing to hold."""
    held_mb = _held_bytes() / (1 << 20)
    caps = [peak + held_mb for peak in small]
    details = {
        "values": VALUES,
        "value_bytes": VALUE_BYTES,
        "connections": CONNECTIONS,
        "small_values": _told(small),
        "large_values": _told(large),
        "cap_mb": round(statistics.median(caps)),
        "cap_is": (
            f"the peak with values of {SMALL_BYTES} bytes, and the most that our limits let it"
            f" hold of large ones: a fetch buffer for each of {CONNECTIONS} connections, a batch"
            f" each, {BATCHES_WAITING_MAX} that wait and one that is written, and a row group of"
            f" {ROW_GROUP_BYTES >> 20} MB and a value, as rows, encoded and compressed:"
            f" {held_mb:.0f} MB"
        ),
        "measured": HOW,
    }
    return Figure(statistics.median(b / a for a, b in zip(caps, large, strict=True)), details)


def _held_bytes() -> int:
    buffer: int | None = LARGE_VALUE_BYTES_START
    while buffer is not None and buffer < VALUE_BYTES:
        buffer = next_large_value_bytes(buffer, 1 << 30)
    batches = CONNECTIONS + BATCHES_WAITING_MAX + 1
    row_group = ROW_GROUP_BYTES + VALUE_BYTES
    return CONNECTIONS * (buffer or 0) + batches * VALUE_BYTES + 3 * row_group


def _by_turns(source: Source, folder: Path, tables: Mapping[str, int]) -> Peaks:
    """The peak of each table's snapshot in every round, in MB of 2^20 bytes."""
    peaks: dict[str, list[float]] = {table: [] for table in tables}
    for _, (table, rows) in itertools.product(range(ROUNDS), tables.items()):

        def snapshot(place: Path, table: str = table) -> int:
            log = folder / f"{table}.log"
            with snapshot_child(source.state, table, "arrow", log) as child:
                child.tell(str(place))
                answer = child.answer()
            peaks[table].append(answer["peak_mb"])
            return int(answer["rows"])

        into_folders(folder / table, rows, snapshot)()
    return peaks


def _fewer(source: Source, rows: int) -> Iterator[str]:
    names = ", ".join(NAMES)
    yield f"CREATE TABLE dbo.{_FEW} ({', '.join(COLUMNS)})"
    yield (
        f"INSERT INTO dbo.{_FEW} ({names}) SELECT {names} FROM dbo.{TABLE} WHERE order_id <= {rows}"
    )
    yield from source.captured(_FEW)


def _documents(source: Source, table: str, length: int) -> Iterator[str]:
    value = f"CAST(REPLICATE(CAST('y' AS varchar(max)), {length}) AS varbinary(max))"
    yield f"CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, body varbinary(max) NULL)"
    for number in range(VALUES):
        yield f"INSERT INTO dbo.{table} (id, body) VALUES ({number}, {value})"
    yield from source.captured(table)


def _told(peaks: Sequence[float]) -> dict[str, Any]:
    return {
        "median_mb": round(statistics.median(peaks)),
        "samples_mb": [round(peak) for peak in peaks],
    }


BENCHMARK = Benchmark(
    name="memory",
    what="peak resident memory of a process that takes a whole snapshot, arrow engine",
    comparisons=(
        Comparison("20 M rows: a snapshot of 2 M rows", "of its memory", target=1.2),
        Comparison("values of 5 MB: the byte cap", "of the cap", target=1.2),
    ),
    run=run,
)
