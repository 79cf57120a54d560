"""`python -m benchmarks`: run all benchmarks, or some, and write what they gave."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Benchmark, Context, measure
from benchmarks.machine import Machine
from benchmarks.plot import write_plot
from benchmarks.registry import BENCHMARKS
from benchmarks.report import target_text, value_text, write_report
from benchmarks.results import Row, merged, on, write_rows

SCRATCH = Path(".cdc/bench/work")
SCALE_MAX = 100
EXIT_ERROR = 1
EXIT_USAGE = 2


class UsageError(Exception):
    """Something asked for that there is not; the message is one sentence."""


def chosen(only: str, known: Sequence[Benchmark] = BENCHMARKS) -> list[Benchmark]:
    """The benchmarks named in a comma-separated list, or all; in their own order."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    unknown = sorted(names - {benchmark.name for benchmark in known})
    if unknown:
        there = ", ".join(benchmark.name for benchmark in known)
        raise UsageError(f"there is no benchmark {', '.join(unknown)}: ONLY may name {there}")
    return [benchmark for benchmark in known if not names or benchmark.name in names]


def scale_of(text: str) -> float:
    """The scale; 1 is the full size."""
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= SCALE_MAX:
        raise UsageError(f"BENCH_SCALE is a number above 0 and up to {SCALE_MAX}, not {text!r}")
    return scale


def run(benchmarks: Sequence[Benchmark], scale: float, folder: Path) -> list[Row]:
    """Measure them one after the other; each result is printed when it is there."""
    found = []
    for benchmark in benchmarks:
        _say(f"{benchmark.name}: {benchmark.what}")
        scratch = (SCRATCH / benchmark.name).absolute()
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        rows = measure(benchmark, Context(scale, scratch, _say))
        for row in rows:
            _say(f"  {_told(row)}")
        found += rows
        # A lake and a source of millions of rows are of no use to anyone; an error's log is.
        if all(row.error is None for row in rows):
            shutil.rmtree(scratch, ignore_errors=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a benchmark failed, 0 when it only missed its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", default=os.environ.get("ONLY", ""), help="some benchmarks: name,name"
    )
    parser.add_argument(
        "--scale", default=os.environ.get("BENCH_SCALE") or "1", help="0.1 for a quick look"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="results' folder")
    parser.add_argument("--list", action="store_true", help="name them and do nothing")
    given = parser.parse_args(arguments)
    try:
        benchmarks, scale = chosen(given.only), scale_of(given.scale)
    except UsageError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return EXIT_USAGE
    if given.list:
        for benchmark in benchmarks:
            print(f"{benchmark.name:16} {benchmark.what}")
        return 0
    return _run_and_write(benchmarks, scale, given.out)


def _run_and_write(benchmarks: Sequence[Benchmark], scale: float, folder: Path) -> int:
    machine = Machine.here()
    if machine.note:
        _say(machine.note)
    rows = on(machine, run(benchmarks, scale, folder))
    every = merged(folder, rows, machine, [benchmark.name for benchmark in BENCHMARKS])
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder, every)
    write_plot(folder, every)
    write_report(folder, every, machine)
    _say(f"written to {folder}")
    failed = sorted({row.name for row in rows if row.error is not None})
    if failed:
        print(f"benchmarks: failed: {', '.join(failed)}", file=sys.stderr)
        return EXIT_ERROR
    return 0


def _told(row: Row) -> str:
    if row.error is not None:
        return f"{row.name} / {row.compared_with}: ERROR {row.error}"
    verdict = {True: "holds", False: "MISSES", None: ""}[row.holds]
    wanted = f" (target {target_text(row)}) {verdict}" if row.target is not None else ""
    return f"{row.name} / {row.compared_with}: {value_text(row)}{wanted}"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
