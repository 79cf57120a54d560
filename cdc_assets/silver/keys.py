"""Silver's key: which columns tell one row from another."""

from __future__ import annotations

from cdc_assets.contract import Column
from cdc_assets.errors import SilverKeyError
from cdc_assets.planning.columns import find_name, listed


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
