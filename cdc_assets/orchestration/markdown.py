"""Small tables and plots as Markdown, for where people look rather than read. Pure.

Plots are of letters: they need no picture, and a log or a terminal shows them as well as the page.
"""

from collections.abc import Mapping, Sequence

BAR_LENGTH = 20
"""Letters of a whole bar."""

_STEPS = "▁▂▃▄▅▆▇█"


def bar(value: float, whole: float) -> str:
    """A share of a whole, by full and empty letters; anything above none shows."""
    share = min(max(value / whole, 0.0), 1.0) if whole else 0.0
    full = max(round(share * BAR_LENGTH), 1 if share else 0)
    return "█" * full + "░" * (BAR_LENGTH - full)


def sparkline(values: Sequence[float]) -> str:
    """Values against the largest of them, a letter each."""
    top = max(values, default=0.0)
    if top <= 0:
        return _STEPS[0] * len(values)
    return "".join(_STEPS[round(max(v, 0.0) / top * (len(_STEPS) - 1))] for v in values)


def rows_table(rows: Mapping[str, int], facts: Mapping[str, str]) -> str:
    """Numbers of rows with their shares as bars, and below them facts with their names."""
    whole = sum(rows.values())
    lines = ["| | rows | |", "|:--|--:|:--|"]
    lines += [f"| {name} | {count:,} | `{bar(count, whole)}` |" for name, count in rows.items()]
    lines += ["", "| | |", "|:--|:--|"]
    lines += [f"| {name} | {text} |" for name, text in facts.items()]
    return "\n".join(lines)
