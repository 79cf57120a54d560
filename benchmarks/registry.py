"""Every benchmark, in the order they run."""

from __future__ import annotations

from benchmarks import (
    change_read,
    cold_run,
    hundred_tables,
    memory,
    merge_clustered,
    merge_scattered,
    quiet_tables,
    rebuild_memory,
    sandbox_memory,
    sandbox_read,
    sandbox_start,
    small_batch,
    snapshot_arrow,
    snapshot_spark,
    thousand_tables,
    wave_apply,
)
from benchmarks.harness import Benchmark

BENCHMARKS: tuple[Benchmark, ...] = (
    sandbox_read.BENCHMARK,
    sandbox_start.BENCHMARK,
    sandbox_memory.BENCHMARK,
    change_read.BENCHMARK,
    snapshot_arrow.BENCHMARK,
    snapshot_spark.BENCHMARK,
    small_batch.BENCHMARK,
    merge_clustered.BENCHMARK,
    merge_scattered.BENCHMARK,
    cold_run.BENCHMARK,
    hundred_tables.BENCHMARK,
    quiet_tables.BENCHMARK,
    thousand_tables.BENCHMARK,
    wave_apply.BENCHMARK,
    memory.BENCHMARK,
    rebuild_memory.BENCHMARK,
)
