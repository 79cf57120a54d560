"""Up to when a table is complete, for people who read the lake without Spark: docs/finality.md.

    from cdc_assets.finality import is_final, verdict

    if is_final("sales.dbo_orders", datetime(2026, 2, 1)):
        told = verdict("sales.dbo_orders")
        rows = DeltaTable(told.uri, version=told.verdict_version).scan()

Nothing is written, and neither the source nor Spark is asked: two small Delta tables are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from cdc_assets.errors import SettingsError, TableReplacedError
from cdc_assets.lake.places import Places, place
from cdc_assets.lake.verdicts import Bookkeeping, read_verdict
from cdc_assets.names import DatabaseName
from cdc_assets.planning.finality import Granularity, Layer, Verdict
from cdc_assets.planning.losses import Gap
from cdc_assets.planning.verdict import Reason
from cdc_assets.settings import load_settings

__all__ = [
    "Gap",
    "Layer",
    "Locations",
    "Reason",
    "Verdict",
    "finalized_until",
    "is_final",
    "verdict",
]


@dataclass(frozen=True, slots=True)
class Locations:
    """Where the bookkeeping of a table is that no `tables.yaml` at hand speaks of.

    `control` and `facts` are paths or URIs of Delta tables; `facts` is the one beside control
    where it is left out, and without any nothing is known of gaps. `bronze` is the bronze of a
    silver table that is not called `silver/<table>`: where the facts do not know it, the gaps of
    all tables count. `storage_options` are delta-rs's, and `granularity` is the length of a period.
    """

    control: str
    facts: str | None = None
    bronze: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    granularity: Granularity = "hour"


def verdict(
    table: str,
    *,
    layer: Literal["bronze", "silver", "history"] = "silver",
    settings: str | Path | None = None,
    at: Locations | None = None,
) -> Verdict:
    """A table's verdict, what holds it back, what is lost, and the version to read.

    `table` is `<database>.<table>` of a `tables.yaml`, by their keys: that at `settings`, else the
    one that `CDC_TABLES` names, else the working folder's. With `at` it is the table's name in
    control, its path or its URI, and `layer` and `settings` play no part.

    A table that was never loaded has the hold `never_loaded`, also where there is no control table
    yet. Raises `SettingsError` for a table that the settings do not know, `TableReplacedError`
    where `at` names a table that is not there or the facts are gone, `TableNewerError` for tables
    of a later release, and what a lake out of reach raises.
    """
    return _of_settings(table, Layer(layer), settings) if at is None else _at(table, at)


def finalized_until(
    table: str,
    *,
    layer: Literal["bronze", "silver", "history"] = "silver",
    settings: str | Path | None = None,
    at: Locations | None = None,
) -> datetime | None:
    """Every period that ends at or before it is complete, in UTC; None before the first.

    But for what is lost, which `is_final` knows. The parameters and errors are `verdict`'s.
    """
    return verdict(table, layer=layer, settings=settings, at=at).finalized_until


def is_final(
    table: str,
    end: datetime,
    *,
    start: datetime | None = None,
    layer: Literal["bronze", "silver", "history"] = "silver",
    settings: str | Path | None = None,
    at: Locations | None = None,
) -> bool:
    """Whether the period from `start` to before `end` is complete in the table.

    Times without a zone are in UTC; `start` is one period of the table's granularity before
    `end` where it is left out. See `Verdict.is_final`; the other parameters and errors are
    `verdict`'s. A table that was never loaded is not final.
    """
    return verdict(table, layer=layer, settings=settings, at=at).is_final(end, start)


def _of_settings(table: str, layer: Layer, settings: str | Path | None) -> Verdict:
    databases = load_settings(Path(settings) if settings else None).databases
    key, _, name = table.partition(".")
    found = databases.get(key)
    if found is None or name not in found.tables:
        known = [f"{db}.{one}" for db, of in databases.items() for one in of.tables]
        close = get_close_matches(table, known, n=1)
        raise SettingsError(
            f"tables.yaml has no table {table}",
            hint=f"{f'Did you mean {close[0]}? ' if close else ''}A table is named"
            " <database>.<table>, by their keys.",
        )
    names = DatabaseName(key, found.lake)
    own = names.table(name)
    book = Bookkeeping.read(names.control_uri, names.facts_uri, found.storage_options)
    target = {Layer.BRONZE: own.bronze, Layer.SILVER: own.silver, Layer.HISTORY: own.history}[layer]
    return read_verdict(
        book,
        Places.of(names.control_uri),
        target,
        None if layer is Layer.BRONZE else own.bronze,
        found.finality_of(name).granularity,
    )


def _at(target: str, at: Locations) -> Verdict:
    places = Places.of(at.control)
    facts = place(at.facts) if at.facts else places.beside("facts")
    options = at.storage_options
    book = Bookkeeping.read(places.control, facts, options, facts_may_lack=at.facts is None)
    if book is None:
        raise TableReplacedError(
            f"there is no Delta table at {places.control}",
            hint="It is the control table that is asked for: <lake>/<database>/_cdc/control.",
        )
    return read_verdict(book, places, target, at.bronze, at.granularity)
