"""Silver's key: which columns tell one row from another."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from deltalake import DeltaTable

from cdc_assets.contract import KEYS_PROPERTY, Column
from cdc_assets.errors import SilverKeyError
from cdc_assets.names import folded
from cdc_assets.planning.applying import Position
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.planning.snapshots import Snapshots


def wanted_keys(
    named: tuple[str, ...], position: Position, snapshots: Snapshots
) -> tuple[str, ...]:
    """The key that was named, else the unique index as silver's own snapshot recorded it.

    A further one may be open for another index, and silver is what it was until that is complete.
    """
    own, complete = position.snapshot or position.opened, snapshots.complete
    at_last = complete.keys if complete else ()
    return named or (at_last if own is None else snapshots.keys.get(own, at_last))


def remembered(keys: tuple[str, ...]) -> Mapping[str, str]:
    """The property of a table that is made with this key."""
    return {KEYS_PROPERTY: json.dumps(keys)}


def made_with(table: DeltaTable) -> tuple[str, ...] | None:
    """The key that a table was made with; None where it does not say."""
    try:
        found = json.loads(table.metadata().configuration.get(KEYS_PROPERTY) or "null")
    except ValueError:
        return None
    return tuple(map(str, found)) if isinstance(found, list) else None


def differ(keys: Collection[str], others: Collection[str]) -> bool:
    """Whether two keys tell other rows apart; one that is not known differs from none."""
    return bool(keys and others) and set(map(folded, keys)) != set(map(folded, others))


def silver_keys(
    keys: tuple[str, ...], captured: tuple[Column, ...], *, where: str
) -> tuple[str, ...]:
    """The key columns as bronze calls them; raises `SilverKeyError`."""
    if not keys:
        raise SilverKeyError(
            "its key is unknown: the capture instance has no unique index",
            where=where,
            hint="Name the key in tables.yaml under `keys`.",
        )
    names = {column.name for column in captured}
    found = {key: find_name(key, names) for key in keys}
    missing = [key for key, name in found.items() if name is None]
    if missing:
        raise SilverKeyError(
            f"key column {missing[0]} is not in bronze",
            where=where,
            hint=f"Bronze has: {listed(sorted(names))}.",
        )
    if len(set(found.values())) != len(keys):
        raise SilverKeyError("a key column is named twice", where=where)
    return tuple(name for name in found.values() if name is not None)
