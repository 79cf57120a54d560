"""`results.svg`: how far each figure is from its target, on one logarithmic axis.

Written by hand, since a plotting library would weigh more than all that it draws here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.results import Row

SVG_NAME = "results.svg"

_LABELS = 320
_AXIS = 460
_VALUES = 150
_STEP = 30
_TOP = 48
_MARGIN = 16
_GOOD, _BAD = "#2a9d6f", "#d1495b"


def headroom(row: Row) -> float | None:
    """How many times better than its target a figure is; below 1 it misses."""
    if row.value is None or not row.value or not row.target:
        return None
    least = row.details.get("target_is") == "at least"
    return row.value / row.target if least else row.target / row.value


def write_plot(folder: Path, rows: Sequence[Row]) -> None:
    """Draw every row that has a target and a value."""
    drawn = [(row, room) for row in rows if (room := headroom(row)) is not None]
    (folder / SVG_NAME).write_text(_svg(drawn), encoding="utf-8")


def _svg(drawn: Sequence[tuple[Row, float]]) -> str:
    reach = max([1.0, *(abs(math.log10(room)) for _, room in drawn)])
    width, height = _LABELS + _AXIS + _VALUES, _TOP + _STEP * len(drawn) + _MARGIN
    middle = _LABELS + _AXIS / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(middle, 20, "target", "middle"),
        _text(middle - 30, 20, "misses it ←", "end", "#777"),
        _text(middle + 30, 20, "→ times better (log scale)", "start", "#777"),
    ]
    for number, (row, room) in enumerate(drawn):
        parts += _bar(row, room, _TOP + number * _STEP, middle, _AXIS / 2 / reach)
    parts.append(
        f'<line x1="{middle}" y1="30" x2="{middle}" y2="{height - _MARGIN}" stroke="#333"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: Row, room: float, y: float, middle: float, scale: float) -> list[str]:
    length = math.log10(room) * scale
    left = middle + min(length, 0)
    label = f"{row.name} / {row.compared_with}"
    shown = label if len(label) <= 48 else label[:47] + "…"
    return [
        _text(_LABELS - 8, y + 13, shown, "end"),
        f'<rect x="{left:.1f}" y="{y}" width="{max(abs(length), 1):.1f}" height="18"'
        f' fill="{_GOOD if row.holds else _BAD}"/>',
        _text(_LABELS + _AXIS + 8, y + 13, f"{room:.2f} x"),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#222") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
