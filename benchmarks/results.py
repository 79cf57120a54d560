"""The rows of a run, and `results.json`, which keeps what this machine measured before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import Machine

JSON_NAME = "results.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; `value` is None where the benchmark failed, and the details say why."""

    name: str
    value: float | None
    unit: str
    target: float | None
    holds: bool | None
    compared_with: str
    scale: float
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> str | None:
        """Why there is no value."""
        found = self.details.get("error")
        return None if found is None else str(found)

    @property
    def machine(self) -> dict[str, Any]:
        """What it was measured on."""
        return dict(self.details.get("machine") or {})


def on(machine: Machine, rows: Iterable[Row]) -> list[Row]:
    """The rows, each saying what it was measured on."""
    return [replace(row, details={**row.details, "machine": machine.described()}) for row in rows]


def merged(folder: Path, rows: Sequence[Row], machine: Machine, order: Sequence[str]) -> list[Row]:
    """These rows, and those of the other benchmarks that this very machine measured before."""
    measured = {row.name for row in rows}
    kept = [
        row
        for row in read_rows(folder)
        if row.name not in measured
        and row.name in order
        and row.machine.get("hardware") == machine.hardware
    ]
    return sorted([*rows, *kept], key=lambda row: order.index(row.name))


def read_rows(folder: Path) -> list[Row]:
    """The rows of the last runs; none where there is no file that we can read."""
    try:
        found = json.loads((folder / JSON_NAME).read_text(encoding="utf-8"))
        return [Row(**row) for row in found]
    except (OSError, ValueError, TypeError):
        return []


def write_rows(folder: Path, rows: Sequence[Row]) -> None:
    """Write `results.json`."""
    text = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    (folder / JSON_NAME).write_text(text + "\n", encoding="utf-8")
