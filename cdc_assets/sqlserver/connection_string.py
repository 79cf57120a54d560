"""Reading an ODBC connection string, braces and all."""

from __future__ import annotations

import re

_PAIR = re.compile(r"\s*([^=;]+?)\s*=\s*(\{(?:[^}]|\}\})*\}|[^;]*)\s*(?:;|$)")


def odbc_pairs(text: str) -> dict[str, str]:
    """The keys (lower case) and values of an ODBC connection string, the first of each."""
    pairs: dict[str, str] = {}
    for found in _PAIR.finditer(text):
        value = found.group(2)
        if value.startswith("{"):
            value = value[1:-1].replace("}}", "}")
        pairs.setdefault(found.group(1).lower(), value)
    return pairs
