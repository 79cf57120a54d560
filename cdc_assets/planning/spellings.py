"""The spellings of one table's name, and the row that any of them finds.

Control and facts hold a table under one form: `<layer>/<table>` where it is in the lake whose
`_cdc` folder they are in, else its place. Tables of other tools stand there as their callers
wrote them: a path, a URI, a name of a catalog. So a row is found by its text, else by the place
that its text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from posixpath import normpath
from urllib.parse import unquote

from cdc_assets.names import folded

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
_BY_PATH = re.compile(r"delta\.`((?:[^`]|``)+)`", re.IGNORECASE)
_OF_LAKE = re.compile(r"(?:bronze|silver|history)/[^/]+")
_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_BOOKKEEPING = "/_cdc/"

PlaceOf = Callable[[str], str | None]
"""Where the table of a name or path is, or None where nobody knows."""


def is_place(text: str) -> bool:
    """Whether it is a path or a URI, and not a name of a catalog."""
    return "/" in text or ":" in text or _BY_PATH.fullmatch(text.strip()) is not None


def has_scheme(text: str) -> bool:
    """Whether it is a URI."""
    return _SCHEME.fullmatch(text) is not None


def spelled(text: str) -> str:
    """A path or URI in one spelling: one scheme for each store, none for files, no last slash.

    A relative path stays one.
    """
    text = text.strip()
    if by_path := _BY_PATH.fullmatch(text):
        text = by_path[1].replace("``", "`")
    found = _SCHEME.fullmatch(text)
    if found is None:
        return _path(text)
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return _path("/" + unquote(rest).lstrip("/"))
    if not rest.startswith("//") or rest.startswith("///"):
        return f"{scheme}:{_path(rest)}"
    store, slash, path = rest[2:].partition("/")
    return f"{_SAME_STORE.get(scheme, scheme)}://{store}{_path(slash + path) if path else ''}"


def _path(text: str) -> str:
    # Two slashes at the begin are one to Delta, and not to normpath.
    return normpath(re.sub("^/+", "/", text)) if text else text


def is_ours_in_lake(text: str) -> bool:
    """Whether it is what we call a table in its lake."""
    return _OF_LAKE.fullmatch(text) is not None


def lake_of(control: str) -> str | None:
    """The database's folder in a lake, by its control table's place; None where it is in none."""
    head, found, rest = control.rpartition(_BOOKKEEPING)
    return head if found and "/" not in rest else None


def canonical(place: str, lake: str | None) -> str:
    """What control and facts call the table at a place, both as `spelled`."""
    if lake is not None and place.startswith(f"{lake}/"):
        inside = place.removeprefix(f"{lake}/")
        if is_ours_in_lake(inside):
            return inside
    return place


def find_row(rows: Iterable[str], wanted: str, place_of: PlaceOf) -> str | None:
    """The row of a table, by any spelling of it; None where there is none.

    `place_of` gives places as `spelled`, and of a row's text what that means in its table. Its own
    text comes first, then the form that we write, then any other row of its place.
    """
    names = sorted(rows, key=lambda name: (not is_ours_in_lake(name), name))
    if wanted in names:
        return wanted
    place = place_of(wanted)
    if place is not None:
        return next((name for name in names if place_of(name) == place), None)
    # A catalog ignores case.
    return next((n for n in names if not is_place(n) and folded(n) == folded(wanted)), None)


def is_history(name: str) -> bool:
    """Whether it is what we call a history, in any lake."""
    return _parts(name)[1] == "history"


def bronze_of(name: str) -> str | None:
    """What the bronze of a silver or of a history is called, where both are called as we do."""
    lake, layer, table = _parts(name)
    return f"{lake}bronze/{table}" if table and layer in ("silver", "history") else None


def _parts(name: str) -> tuple[str, str, str]:
    """A lake's folder with its slash, the layer and the table; the last two may be empty."""
    head, _, table = name.rpartition("/")
    lake, slash, layer = head.rpartition("/")
    return lake + slash, layer, table
