"""What a benchmark is, how its samples are taken, and what becomes of an error.

Two things that are compared take turns in one run, and the order changes every round, so that
other work on the machine weighs on both. A figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.results import Row

ROUNDS = 5
"""Measured rounds; the fewest that a median is taken of."""

Action = Callable[[], float]
"""Does its work once and gives the seconds that count."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of a benchmark: against what, in which unit, and where it has to be."""

    compared_with: str
    unit: str
    target: float | None = None
    at: Literal["least", "most"] = "most"

    def holds(self, value: float) -> bool | None:
        """Whether a value meets the target; None without one."""
        if self.target is None:
            return None
        return value >= self.target if self.at == "least" else value <= self.target


@dataclass(frozen=True, slots=True)
class Figure:
    """The value of one comparison, or why there is none."""

    value: float | None
    details: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a benchmark may use: its scale, a folder of its own, and a line to say something."""

    scale: float
    folder: Path
    say: Callable[[str], None]

    def rows(self, count: int) -> int:
        """A number of rows at this scale."""
        return max(1_000, round(count * self.scale))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named measurement with its comparisons; `run` gives one figure for each, in order."""

    name: str
    what: str
    comparisons: tuple[Comparison, ...]
    run: Callable[[Context], Sequence[Figure]]


@dataclass(frozen=True, slots=True)
class Samples:
    """The seconds of each measured round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.seconds)

    def described(self) -> dict[str, Any]:
        """Median, extremes and every sample, for the details of a row."""
        return {
            "median_s": round(self.median, 4),
            "fastest_s": round(min(self.seconds), 4),
            "slowest_s": round(max(self.seconds), 4),
            "samples_s": [round(s, 4) for s in self.seconds],
        }


def timed(work: Callable[[], object]) -> Action:
    """An action all of whose time counts."""

    def action() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return action


def repeat(action: Action, *, rounds: int = ROUNDS, warmups: int = 1) -> Samples:
    """Measure one action."""
    return alternate({"": action}, rounds=rounds, warmups=warmups)[""]


def alternate(
    actions: Mapping[str, Action], *, rounds: int = ROUNDS, warmups: int = 1
) -> dict[str, Samples]:
    """Measure several actions by turns; who goes first changes every round."""
    if rounds < ROUNDS:
        raise ValueError(f"a median needs at least {ROUNDS} rounds, not {rounds}")
    taken: dict[str, list[float]] = {name: [] for name in actions}
    names = list(actions)
    for number in range(warmups + rounds):
        for name in names if number % 2 == 0 else reversed(names):
            seconds = actions[name]()
            if number >= warmups:
                taken[name].append(seconds)
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def ratio(of: Samples, to: Samples) -> float:
    """The median of the rounds' own ratios: what slowed a round slowed both sides of it."""
    return statistics.median(a / b for a, b in zip(of.seconds, to.seconds, strict=True))


def measure(benchmark: Benchmark, context: Context) -> list[Row]:
    """Run a benchmark; what it raises becomes the reason of rows without a value."""
    started = time.perf_counter()
    try:
        figures = list(benchmark.run(context))
        if len(figures) != len(benchmark.comparisons):
            raise ValueError(
                f"{benchmark.name} gave {len(figures)} figures for"
                f" {len(benchmark.comparisons)} comparisons"
            )
    except Exception as error:  # noqa: BLE001 - the row says it, and the exit status
        context.say("".join(traceback.format_exception(error)).rstrip())
        reason = f"{type(error).__name__}: {error}"
        figures = [Figure(None, error=reason) for _ in benchmark.comparisons]
    took = round(time.perf_counter() - started, 1)
    return [
        _row(benchmark, comparison, figure, context, took)
        for comparison, figure in zip(benchmark.comparisons, figures, strict=True)
    ]


def _row(
    benchmark: Benchmark, comparison: Comparison, figure: Figure, context: Context, took: float
) -> Row:
    details: dict[str, Any] = {"measures": benchmark.what, **figure.details}
    if comparison.target is not None:
        details["target_is"] = f"at {comparison.at}"
    if figure.error is not None:
        details["error"] = figure.error
    details["benchmark_took_s"] = took
    return Row(
        name=benchmark.name,
        value=figure.value,
        unit=comparison.unit,
        target=comparison.target,
        holds=None if figure.value is None else comparison.holds(figure.value),
        compared_with=comparison.compared_with,
        scale=context.scale,
        details=details,
    )
