"""Samples, medians and ratios, and what becomes of an error; nothing here is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.harness import (
    Benchmark,
    Comparison,
    Context,
    Figure,
    Samples,
    alternate,
    measure,
    ratio,
    repeat,
)


def given(*seconds: float) -> Iterator[float]:
    return iter(seconds)


def context(folder: Path) -> Context:
    return Context(scale=0.1, folder=folder, say=lambda line: None)


def benchmark(figures: Sequence[Figure], *comparisons: Comparison) -> Benchmark:
    return Benchmark("one", "what it measures", comparisons, lambda _: figures)


def test_a_figure_is_the_median_of_the_rounds_after_the_warm_up() -> None:
    taken = given(99, 5, 1, 4, 2, 3)
    samples = repeat(lambda: next(taken), warmups=1)
    assert samples.seconds == (5, 1, 4, 2, 3)
    assert samples.median == 3
    assert samples.described()["fastest_s"] == 1
    assert samples.described()["slowest_s"] == 5


def test_fewer_than_five_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 5 rounds, not 4"):
        repeat(lambda: 1.0, rounds=4)


def test_who_goes_first_changes_every_round() -> None:
    order = []

    def action(name: str) -> float:
        order.append(name)
        return 1.0

    alternate({"a": lambda: action("a"), "b": lambda: action("b")}, warmups=1)
    assert order == ["a", "b", "b", "a"] * 3


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_weighs_on_both() -> None:
    ours = Samples((1, 10, 1, 1, 1))
    theirs = Samples((2, 20, 2, 2, 2))
    assert ratio(ours, theirs) == 0.5


def test_rows_say_whether_the_target_holds_in_either_direction(tmp_path: Path) -> None:
    rows = measure(
        benchmark(
            [Figure(0.9), Figure(0.9), Figure(0.9), Figure(0.9)],
            Comparison("a", "x", 0.85, "least"),
            Comparison("b", "x", 0.95, "least"),
            Comparison("c", "x", 0.85, "most"),
            Comparison("d", "x"),
        ),
        context(tmp_path),
    )
    assert [row.holds for row in rows] == [True, False, False, None]
    assert [row.compared_with for row in rows] == ["a", "b", "c", "d"]
    assert {row.scale for row in rows} == {0.1}


def test_an_error_is_a_row_for_each_comparison_with_the_reason(tmp_path: Path) -> None:
    def fail(_: Context) -> Sequence[Figure]:
        raise RuntimeError("the source went away")

    failing = Benchmark("one", "what", (Comparison("a", "x", 1), Comparison("b", "x", 1)), fail)
    rows = measure(failing, context(tmp_path))
    assert [(row.value, row.holds) for row in rows] == [(None, None)] * 2
    assert {row.error for row in rows} == {"RuntimeError: the source went away"}


def test_one_side_may_fail_alone(tmp_path: Path) -> None:
    figures = [Figure(1.0), Figure(None, error="no Java")]
    rows = measure(
        benchmark(figures, Comparison("a", "s", 2), Comparison("b", "x", 1)), context(tmp_path)
    )
    assert [(row.value, row.holds, row.error) for row in rows] == [
        (1.0, True, None),
        (None, None, "no Java"),
    ]


def test_a_benchmark_that_gives_too_few_figures_is_an_error(tmp_path: Path) -> None:
    rows = measure(benchmark([], Comparison("a", "s", 2)), context(tmp_path))
    assert rows[0].error == "ValueError: one gave 0 figures for 1 comparisons"
