"""Which tables of a database can be loaded, and with which settings: what `discover` writes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.contract import SnapshotMode, our_column
from cdc_assets.names import folded
from cdc_assets.planning.columns import listed
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.table_checkup import SourceColumn

KEY_LENGTH_MAX = 100
"""Characters of a table's key in the settings."""

CHUNKED_ROWS = 10_000_000
"""Rows from which a table's snapshot is read in chunks, where nobody says another number."""

_NO_KEY_LETTER = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Discovered:
    """What the catalog says of one capture instance; `rows` is None where it does not count."""

    instance: CaptureInstance
    columns: tuple[SourceColumn, ...]
    unique: tuple[frozenset[str], ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One table's line: its key, settings other than the defaults, and why.

    `left_out` is why it cannot be loaded, "" where it can.
    """

    key: str
    instance: str
    source: str
    rows: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    left_out: str = ""


def choose_tables(found: Iterable[Discovered], chunked_rows: int = CHUNKED_ROWS) -> list[Choice]:
    """A line for every table, in the order of their names; of two instances the newer one."""
    newest: dict[int, Discovered] = {}
    older: dict[int, str] = {}
    for one in sorted(found, key=lambda d: d.instance.identity.age):
        source = one.instance.identity.source_object_id
        if source in newest:
            older[source] = newest[source].instance.name
        newest[source] = one
    taken: set[str] = set()
    choices = []
    for one in sorted(newest.values(), key=lambda d: d.instance.name):
        key = free_name(key_of(one.instance.name), taken)
        taken.add(folded(key))
        before = older.get(one.instance.identity.source_object_id)
        choices.append(_choose(one, key, before, chunked_rows))
    return choices


def key_of(name: str) -> str:
    """A name as the settings, paths and assets can have it: ASCII letters, digits and `_`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _NO_KEY_LETTER.sub("_", plain).strip("_")[:KEY_LENGTH_MAX] or "table"


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or with the first number that makes it differ from those taken (folded)."""
    number, found = 1, name
    while folded(found) in taken:
        number += 1
        found = f"{name[: KEY_LENGTH_MAX - len(str(number)) - 1]}_{number}"
    return found


def _choose(one: Discovered, key: str, older: str | None, chunked_rows: int) -> Choice:
    instance = one.instance
    source = f"{instance.schema}.{instance.table}"
    settings: dict[str, Any] = {}
    why: list[str] = []
    if key != instance.name:
        settings["capture_instance"] = instance.name
        why.append("its capture instance's name is no key")
    if older is not None:
        why.append(f"of two capture instances the newer; {older} is not read")
    loaded = [c for c in one.columns if c.is_known and not c.is_computed]
    unknown = [f"{c.name} ({c.type})" for c in one.columns if not c.is_known]
    if unknown:
        settings["columns"] = [c.name for c in loaded]
        why.append(f"without {listed(unknown)}, of types that have no counterpart")
    keys, told = _keys(one, {c.name for c in loaded})
    rename = _renamed([c.name for c in loaded])
    if rename:
        settings["rename"] = rename
        why.append(f"other names for {listed(rename)}, which are ours or differ in case alone")
    if keys is None:
        return Choice(key, instance.name, source, one.rows, left_out=told)
    why.append(told)
    if tuple(keys) != instance.index_columns:
        settings["keys"] = [rename.get(name, name) for name in keys]
    if one.rows is not None and one.rows >= chunked_rows:
        settings["snapshot"] = str(SnapshotMode.CHUNKED)
        why.append(f"in chunks, from {chunked_rows:,} rows on")
    # `${…}` in a value would be taken for a variable of the environment.
    if "${" in str(settings):
        return Choice(key, instance.name, source, one.rows, left_out="a name of it holds ${")
    return Choice(key, instance.name, source, one.rows, settings, tuple(why))


def _keys(one: Discovered, loaded: Collection[str]) -> tuple[Sequence[str] | None, str]:
    """The key, and where it is from; None, and why there is none."""
    captured = one.instance.index_columns
    if captured and set(captured) <= set(loaded):
        return captured, f"key {listed(captured)}, of the unique index that it is captured with"
    others = [sorted(index) for index in one.unique if index and index <= set(loaded)]
    if others:
        keys = min(others, key=lambda names: (len(names), names))
        return keys, f"key {listed(keys)}, of a unique index"
    if captured or one.unique:
        return None, "its unique indexes have columns that are computed or cannot be loaded"
    return None, "it has no unique index that this login sees: give it `keys`, if it has any"


def _renamed(names: Sequence[str]) -> dict[str, str]:
    """Names in the lake for columns whose own are not to be had there."""
    found: dict[str, str] = {}
    taken = {folded(name) for name in names}
    seen: set[str] = set()
    for name in names:
        if our_column(name) is None and folded(name) not in seen:
            seen.add(folded(name))
            continue
        other = free_name(f"source{name}" if name.startswith("_") else f"source_{name}", taken)
        found[name] = other
        taken.add(folded(other))
    return found
