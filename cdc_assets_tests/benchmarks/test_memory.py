"""What the figures of memory are made of: peaks of processes, and the cap that limits give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import memory
from benchmarks.processes import Process
from benchmarks.snapshots import into_folders

ROWS = {"few": 2, "many": 20}


def test_a_peak_is_of_the_process_itself_and_stays() -> None:
    """Not of its parent, which getrusage would count in."""
    size = 64
    program = (
        "from benchmarks.processes import Process\n"
        f"before = Process().peak_mb(); held = b'x' * ({size} << 20); del held\n"
        "print(before, Process().peak_mb())"
    )
    held = b"x" * (3 * size << 20)
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    before, after = map(float, told.stdout.split())
    assert len(held) >> 20 > before
    assert after - before == pytest.approx(size, abs=16)
    assert Process(os.getpid()).peak_mb() > size * 2


def test_many_rows_are_compared_round_by_round() -> None:
    few, many = [100, 200, 100, 100, 100], [110, 220, 90, 300, 110]
    figure = memory._of_rows(few, many, 2, 20)
    assert figure.value == pytest.approx(1.1)
    assert figure.details["rows"] == ROWS


def test_the_cap_is_what_a_small_snapshot_takes_and_what_the_limits_let_it_hold() -> None:
    held = memory._held_bytes() / (1 << 20)
    assert held == 2 * 32 + 7 * 5 + 3 * (8 + 5)
    figure = memory._of_values([300] * 5, [300 + held] * 5)
    assert figure.value == pytest.approx(1)
    assert figure.details["cap_mb"] == 300 + held


def test_rows_that_are_lost_are_no_figure(tmp_path: Path) -> None:
    def short(place: Path) -> int:
        place.mkdir(parents=True)
        return 9

    with pytest.raises(ValueError, match="9 rows were written of 10"):
        into_folders(tmp_path, 10, short)()
