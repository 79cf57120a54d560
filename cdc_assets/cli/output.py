"""How commands print: plain tables for people, JSON for programs, both to standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:
    """One JSON document, and nothing else, on standard output."""
    json.dump(as_json(value), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def as_json(value: Any) -> Any:
    """A value as JSON has it: dataclasses as objects, times in UTC as text of one length.

    So their order as texts is that of the times.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='microseconds')}Z"
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str]) -> None:
    """A plain table; the columns named in `right` hold numbers. Names are shown as they are."""
    numbers = set(right)
    shown = Table(box=SIMPLE, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for head in heads:
        shown.add_column(head, justify="right" if head in numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(plain(cell) for cell in row))
    Console(highlight=False, markup=False).print(shown)


def say(text: str, *, error: bool = False) -> None:
    """One sentence in one line, whatever stands in it; on standard error where it is one."""
    Console(stderr=error, highlight=False, soft_wrap=True).print(plain(text), markup=False)


def plain(text: str) -> str:
    """A text that moves no cursor: a name of the source may hold any character."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
