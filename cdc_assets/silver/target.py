"""The table that an apply's MERGE goes into, silver or a history, as it meets it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.lake.lake import Made
from cdc_assets.lake.tables import check_names, columns_of, table_id
from cdc_assets.planning.schemas import check_silver
from cdc_assets.silver.places import SilverTable


@dataclass(frozen=True, slots=True)
class Target:
    """The Delta table, all columns that the MERGE writes, and its transaction version."""

    delta: DeltaTable
    columns: tuple[Column, ...]
    version: int


@dataclass(frozen=True, slots=True)
class There:
    """The table as a call has found it, and its transaction version; None where it is missing."""

    delta: DeltaTable | None
    version: int


def make_ready(
    table: SilverTable, made: Made, there: There, discarded: Collection[str], *, anew: bool
) -> Target | None:
    """The table of an apply, made where it is missing, and emptied where it begins anew.

    A row only takes a newer image, so what begins anew must hold none. None where one with a
    discarded id stands there all the same: another call has come first. Raises
    `SchemaChangedError` and `UnsupportedColumnError` for columns that it cannot hold.
    """
    found, version = there.delta, there.version
    if anew:
        version += 1
        found = table.lake.renew(made, version)
        if table_id(found) in discarded:
            return None
    delta = table.lake.ensure(made, found)
    check_silver(columns_of(delta), made.columns, table.name)
    check_names(delta, made.columns, where=str(table.name))
    return Target(delta, made.columns, version)
