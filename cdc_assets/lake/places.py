"""Where a table is that somebody names: by its name in a lake, a path, a URI, or a catalog's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.planning.spellings import (
    canonical,
    find_row,
    has_scheme,
    is_ours_in_lake,
    is_place,
    lake_of,
    spelled,
)

Catalog = Callable[[str], str | None]
"""Gives the place of a catalog's table, or None where it has none of that name."""


def no_catalog(_: str) -> str | None:
    """Without a session nobody knows a catalog's names."""
    return None


def place(text: str, folder: str | None = None) -> str:
    """A path or URI in one spelling; a relative path is in `folder`, else in the working one.

    Links are followed, as those of a `lake` in tables.yaml are.
    """
    found = spelled(text)
    if has_scheme(found):
        return found
    if folder is not None and has_scheme(folder) and not found.startswith("/"):
        return spelled(f"{folder}/{found}")
    return str(Path(os.path.realpath(Path(folder or "") / found)))


@dataclass(frozen=True, slots=True)
class Places:
    """What names mean beside one control table."""

    control: str
    lake: str | None
    catalog: Catalog = no_catalog

    @classmethod
    def of(cls, control: str, catalog: Catalog = no_catalog) -> Places:
        """Beside the control table of this name, path or URI."""
        found = place(control) if is_place(control) else (catalog(control) or control)
        return cls(found, lake_of(found), catalog)

    def there(self, table: str) -> Places:
        """What names mean in another bookkeeping table: in that one's own lake."""
        return Places(table, lake_of(table), self.catalog)

    def beside(self, table: str) -> str:
        """The place of another bookkeeping table next to control."""
        return f"{self.control.rpartition('/')[0]}/{table}"

    def of_row(self, name: str) -> str | None:
        """Where the table of a row of control or the facts is."""
        if not is_place(name):
            found = self.catalog(name)
            return None if found is None else place(found)
        return place(name, self.lake)

    def of_call(self, text: str, rows: frozenset[str] = frozenset()) -> str | None:
        """Where a table is that a caller names.

        As a row is called, it is that row's, and a name of ours is of this lake; another relative
        path is one from the working folder, as Spark and delta-rs take it, unless only the lake
        has a row of such a table.
        """
        if text in rows or not is_place(text):
            return self.of_row(text)
        here, inside = place(text), place(text, self.lake)
        known = {self.of_row(row) for row in rows}
        is_ours = self.lake is not None and is_ours_in_lake(spelled(text))
        return inside if here not in known and (inside in known or is_ours) else here

    def row(self, rows: frozenset[str], text: str) -> str | None:
        """The row of the table that a caller names, by any spelling of it."""
        wanted = self.of_call(text, rows)
        return find_row(rows, text, lambda name: wanted if name == text else self.of_row(name))

    def row_at(self, rows: frozenset[str], uri: str) -> str | None:
        """The row of the table at a place."""
        return find_row(rows, uri, lambda name: uri if name == uri else self.of_row(name))

    def name(self, text: str) -> str:
        """What control and facts call the table that a caller names, where they have no row."""
        found = self.of_call(text)
        return text if found is None else canonical(found, self.lake)
