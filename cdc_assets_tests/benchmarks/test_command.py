"""`python -m benchmarks`: what can be asked for, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.harness import Benchmark, Comparison, Context, Figure
from benchmarks.registry import BENCHMARKS
from benchmarks.results import JSON_NAME

NAMES = [benchmark.name for benchmark in BENCHMARKS]


def gives(name: str, value: float | None, error: str | None = None) -> Benchmark:
    def run(_: Context) -> Sequence[Figure]:
        return [Figure(value, error=error)]

    return Benchmark(name, "what", (Comparison("the limit", "x", 1.0),), run)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONLY", raising=False)
    monkeypatch.delenv("BENCH_SCALE", raising=False)
    return tmp_path / "out"


def known(monkeypatch: pytest.MonkeyPatch, *benchmarks: Benchmark) -> None:
    monkeypatch.setattr(command, "BENCHMARKS", benchmarks)
    monkeypatch.setattr(
        command, "chosen", lambda only: [b for b in benchmarks if not only or b.name in only]
    )


def test_every_benchmark_has_a_name_of_its_own_and_a_target() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for benchmark in BENCHMARKS:
        assert benchmark.comparisons
        assert all(c.target is not None for c in benchmark.comparisons)


def test_all_are_chosen_by_default_and_some_by_name_in_their_own_order() -> None:
    assert [b.name for b in command.chosen("")] == NAMES
    assert [b.name for b in command.chosen(f" {NAMES[2]}, {NAMES[0]},")] == [NAMES[0], NAMES[2]]


def test_an_unknown_name_is_one_sentence_that_lists_what_there_is(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--only", "small_batch,nonsense", "--out", str(out)]) == 2
    said = capsys.readouterr().err.strip()
    assert said == f"benchmarks: there is no benchmark nonsense: ONLY may name {', '.join(NAMES)}"
    assert not out.exists()


@pytest.mark.parametrize("scale", ["0", "-1", "x", "nan", "101", "inf"])
def test_a_scale_that_is_none_is_one_sentence(
    out: Path, scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([f"--scale={scale}", "--out", str(out)]) == 2
    assert f"not '{scale}'" in capsys.readouterr().err


def test_make_hands_its_variables_over(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, gives("one", 0.5), gives("two", 0.5))
    monkeypatch.setenv("ONLY", "two")
    monkeypatch.setenv("BENCH_SCALE", "0.25")
    assert command.main(["--out", str(out)]) == 0
    found = json.loads((out / JSON_NAME).read_text())
    assert [(row["name"], row["scale"]) for row in found] == [("two", 0.25)]


def test_a_miss_is_a_figure_and_no_failure(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, gives("one", 7.0))
    assert command.main(["--out", str(out)]) == 0
    (row,) = json.loads((out / JSON_NAME).read_text())
    assert row["value"] == 7.0
    assert row["holds"] is False
    assert row["details"]["machine"]["hardware"]


def test_an_error_is_a_row_and_exit_status_1(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known(monkeypatch, gives("one", None, error="no Java"), gives("two", 0.5))
    assert command.main(["--out", str(out)]) == 1
    rows = json.loads((out / JSON_NAME).read_text())
    assert [(row["value"], row["holds"]) for row in rows] == [(None, None), (0.5, True)]
    assert rows[0]["details"]["error"] == "no Java"
    assert capsys.readouterr().err.strip() == "benchmarks: failed: one"


def test_listing_measures_nothing(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list", "--out", str(out)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES
    assert not out.exists()
