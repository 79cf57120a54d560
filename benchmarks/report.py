"""`results.md`: a table that people read, and what it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine
from benchmarks.plot import SVG_NAME
from benchmarks.results import Row

MD_NAME = "results.md"
_HIDDEN = {"measures", "machine", "error", "target_is", "benchmark_took_s"}


def write_report(folder: Path, rows: Sequence[Row], machine: Machine) -> None:
    """Write `results.md` from all rows; `machine` is that of the newest run."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; the same figures are in `results.json`. Each is the median of"
        " at least five rounds, and two things that are compared take turns in one run.",
        "",
        f"![value against target]({SVG_NAME})",
        "",
        "| benchmark | compared with | value | target | holds | scale | measured |",
        "|---|---|---|---|---|---|---|",
        *(_line(row) for row in rows),
        "",
        f"Machine: {machine.hardware}.",
        f"Versions: {machine.versions}.",
        *([f"**Noise**: {machine.note}"] if machine.note else []),
        "",
        "## What was measured",
        "",
        *(line for row in rows for line in _details(row)),
    ]
    (folder / MD_NAME).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def value_text(row: Row) -> str:
    """The value with its unit, or that there is none."""
    if row.value is None:
        return "error"
    return f"{number(row.value)} {row.unit}"


def target_text(row: Row) -> str:
    """The target with its direction."""
    if row.target is None:
        return ""
    sign = "≥" if row.details.get("target_is") == "at least" else "≤"
    return f"{sign} {number(row.target)}"


def number(value: float) -> str:
    """A number with three digits that matter, and no exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def _line(row: Row) -> str:
    holds = {True: "yes", False: "**no**", None: ""}[row.holds]
    when = row.machine.get("measured_at", "")
    cells = (
        f"`{row.name}`",
        row.compared_with,
        value_text(row),
        target_text(row),
        holds,
        number(row.scale),
        when,
    )
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _details(row: Row) -> list[str]:
    lines = [f"* **`{row.name}`** ({row.compared_with}): {row.details.get('measures', '')}"]
    if row.error is not None:
        lines.append(f"  * error: {row.error}")
    lines += [
        f"  * {key}: {_shown(value)}" for key, value in row.details.items() if key not in _HIDDEN
    ]
    return [" ".join(line.splitlines()) for line in lines]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
