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
from cdc_assets.engines.arrow.reading import BATCHES_WAITING_MAX
from cdc_assets.lake.files import LARGE_VALUES_GROUP_BYTES
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START
from cdc_assets.sqlserver.read import next_large_value_bytes

FEW, SOME, MANY = 2_000_000, 8_000_000, 20_000_000
CHUNK_ROWS = 100_000
VALUES = 100
VALUE_BYTES, SMALL_BYTES = 5 << 20, 10
HOW = (
    "the product's own process, a new one each time: VmHWM after one sync into an empty lake,"
    " arrow engine; the server is not counted"
)

_FEW, _SOME, _SMALL, _LARGE = "bench_few", "bench_some", "bench_small", "bench_large"
Peaks = Mapping[str, Sequence[float]]


def run(context: Context) -> Sequence[Figure]:
    """Few rows and many of one shape, then small values and large ones, by turns."""
    few, some, many = context.rows(FEW), context.rows(SOME), context.rows(MANY)
    with running_source(context.folder / "sandbox") as source:
        source.load(many, captured=False)
        source.execute(*_part(source, _FEW, few), *_part(source, _SOME, some))
        for table, length in ((_SMALL, SMALL_BYTES), (_LARGE, VALUE_BYTES)):
            source.execute(*_documents(source, table, length))
        rows = _by_turns(source, context.folder, {f"dbo_{_FEW}": few, INSTANCE: many})
        chunk_rows = context.rows(CHUNK_ROWS)
        chunks = _by_turns(
            source, context.folder, {f"dbo_{_FEW}": few, f"dbo_{_SOME}": some}, chunk_rows
        )
        values = _by_turns(
            source, context.folder, {f"dbo_{_SMALL}": VALUES, f"dbo_{_LARGE}": VALUES}
        )
    return [
        _of_rows(rows[f"dbo_{_FEW}"], rows[INSTANCE], few, many),
        _of_chunks(chunks[f"dbo_{_FEW}"], chunks[f"dbo_{_SOME}"], (few, some, chunk_rows)),
        _of_values(values[f"dbo_{_SMALL}"], values[f"dbo_{_LARGE}"]),
    ]


def _of_rows(small: Sequence[float], large: Sequence[float], few: int, many: int) -> Figure:
    details = {
        "rows": {"few": few, "many": many},
        "columns": len(COLUMNS),
        "connections": CONNECTIONS,
        "few": _told(small),
        "many": _told(large),
        "measured": HOW,
    }
    return Figure(_ratio(small, large), details)


def _of_chunks(
    small: Sequence[float], large: Sequence[float], rows: tuple[int, int, int]
) -> Figure:
    few, some, chunk_rows = rows
    figure = _of_rows(small, large, few, some)
    measured = f"{HOW}; the sync opens it, and one backfill reads it to its end"
    return Figure(figure.value, {**figure.details, "chunk_rows": chunk_rows, "measured": measured})


def _ratio(small: Sequence[float], large: Sequence[float]) -> float:
    """The median of what one round's large one is to its small one."""
    return statistics.median(b / a for a, b in zip(small, large, strict=True))


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
            f" {LARGE_VALUES_GROUP_BYTES >> 20} MB and a value, as rows, encoded and compressed:"
            f" {held_mb:.0f} MB"
        ),
        "measured": HOW,
    }
    return Figure(_ratio(caps, large), details)


def _held_bytes() -> int:
    buffer: int | None = LARGE_VALUE_BYTES_START
    while buffer is not None and buffer < VALUE_BYTES:
        buffer = next_large_value_bytes(buffer, 1 << 30)
    batches = CONNECTIONS + BATCHES_WAITING_MAX + 1
    row_group = LARGE_VALUES_GROUP_BYTES + VALUE_BYTES
    return CONNECTIONS * (buffer or 0) + batches * VALUE_BYTES + 3 * row_group


def _by_turns(
    source: Source, folder: Path, tables: Mapping[str, int], chunk_rows: int | None = None
) -> Peaks:
    """The peak of each table's snapshot in every round, in MB of 2^20 bytes."""
    peaks: dict[str, list[float]] = {table: [] for table in tables}
    for _, (table, rows) in itertools.product(range(ROUNDS), tables.items()):

        def snapshot(place: Path, table: str = table) -> int:
            log = folder / f"{table}.log"
            with snapshot_child(source.state, table, "arrow", log, chunk_rows) as child:
                child.tell(str(place))
                answer = child.answer()
            peaks[table].append(answer["peak_mb"])
            return int(answer["rows"])

        into_folders(folder / table, rows, snapshot)()
    return peaks


def _part(source: Source, table: str, rows: int) -> Iterator[str]:
    names = ", ".join(NAMES)
    yield f"CREATE TABLE dbo.{table} ({', '.join(COLUMNS)})"
    yield (
        f"INSERT INTO dbo.{table} ({names}) SELECT {names} FROM dbo.{TABLE}"
        f" WHERE order_id <= {rows}"
    )
    yield from source.captured(table)


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
        Comparison("8 M rows in chunks: 2 M rows in chunks", "of its memory", target=1.2),
        Comparison("values of 5 MB: the byte cap", "of the cap", target=1.2),
    ),
    run=run,
)
