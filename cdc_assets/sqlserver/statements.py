"""How a statement travels: its text as it is, or as a parameter where it is not ASCII.

The driver takes a statement's text in a code page that it derives from the process's locale, and
in the locales of containers (C, POSIX, C.UTF-8) that is Latin-1: a name in any other alphabet
would reach the server as something else. Parameters are UTF-16 whatever the locale.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\[(?:[^\]]|\]\])*\]|'(?:[^']|'')*'|\?")

Parameters = Sequence[str | None]


def in_parameters(text: str, parameters: Parameters = ()) -> tuple[str, Parameters]:
    """The statement in ASCII: as it is, else as a call that takes the text as a parameter."""
    if text.isascii():
        return text, parameters
    body, count = numbered(text)
    if count != len(parameters):
        raise ValueError(f"{count} marks and {len(parameters)} parameters")
    if not count:
        return "EXEC sys.sp_executesql ?", (body,)
    declared = ", ".join(f"@P{n} nvarchar(4000)" for n in range(1, count + 1))
    marks = ", ".join("?" * (count + 2))
    return f"EXEC sys.sp_executesql {marks}", (body, declared, *parameters)


def numbered(text: str) -> tuple[str, int]:
    """A text with `@P1`, `@P2`, … for its marks, and how many; names and literals stay."""
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        if found.group() != "?":
            return found.group()
        count += 1
        return f"@P{count}"

    return _TOKEN.sub(number, text), count
