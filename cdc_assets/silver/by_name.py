"""`apply_changes` as seed 0019 declares it: tables by any name, a batch call, one at a time.

It is the core that the assets call (`silver.apply`), on tables that a caller names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypedDict

from deltalake import DeltaTable

from cdc_assets.engines.spark.catalog import SparkCatalog, catalog_of
from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError, SilverKeyError
from cdc_assets.ingest.stream.places import settings_of
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.places import Places, place
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.lake.unwritten import ToldFacts, control_rows
from cdc_assets.names import folded
from cdc_assets.planning.columns import listed
from cdc_assets.planning.finality import Granularity
from cdc_assets.planning.instances import instance_names
from cdc_assets.planning.records import FactsRow
from cdc_assets.planning.snapshots import snapshots_of
from cdc_assets.planning.spellings import canonical, is_place, lake_of
from cdc_assets.settings.options import Options, read_options
from cdc_assets.silver.apply import apply_one
from cdc_assets.silver.outcome import ApplyOutcome
from cdc_assets.silver.placed import PlacedDatabaseName, PlacedTable, Worker, key_of
from cdc_assets.silver.places import SilverTable
from cdc_assets.silver.source_keys import unique_index

_log = logging.getLogger(__name__)


class Applied(TypedDict):
    """What a call found and did."""

    rebuilt: bool
    """Whether silver was rebuilt from a snapshot."""
    applied_lsn: str | None
    """The highest LSN of the changes that are in silver."""
    finalized_until: datetime | None
    """Silver's verdict after the call, in UTC."""
    bronze_found: bool
    """False while bronze does not exist: then nothing was done."""
    rows_upserted: int
    rows_deleted: int
    waves_applied: int
    """Of an open chunked snapshot."""
    overtaken: bool
    """Whether another call came first: then nothing was done, and the next one goes on."""
    hold: str | None
    """What holds the verdict back."""


def apply_changes(  # noqa: PLR0913 - seed 0019's signature
    spark: Any,
    bronze: str,
    target: str,
    *,
    capture_instance: str | None = None,
    keys: Sequence[str] | None = None,
    control_table: str,
    facts_table: str | None = None,
    options: Mapping[str, str] | None = None,
    granularity: Granularity = "hour",
    storage_options: StorageOptions | None = None,
) -> Applied:
    """Bring the silver table `target` up to the changes in `bronze`, and its verdict to bronze's.

    Tables are names of the session's catalog, paths or URIs; a silver or control table that is
    missing is made. `spark` is the session that works, classic or Spark Connect; None lets delta-rs
    do it in this process, and then a catalog's names are unknown. `storage_options` are delta-rs's,
    for the small tables, where the environment has no credentials.

    `options` are the stream's (docs/reference/options.md): they give `capture_instance` where it is
    left out, and the key by the source's unique index where neither `keys` nor the snapshot has
    one; and `deletes` and `changeDataFeed`, without which silver stays as it is. Without
    `facts_table` the verdict is not moved: only the facts tell that a snapshot is open.
    `granularity` is the length of a verdict's period.

    Raises `SilverKeyError` for a key that is unknown, missing or named twice,
    `CaptureInstanceUnknownError`, `SettingsError` for names that mean no table, and what the lake
    raises. Nothing is written before. Of two calls at once, one is `overtaken`.
    """
    if spark is not None:
        require_pyspark()
    given = _options(options, capture_instance) if options else None
    if storage_options is None and given is not None:
        storage_options = settings_of(given)[2].storage_options
    call = _Call(spark, bronze, target, control_table, facts_table)
    found = _found(call, storage_options or {})
    if found is None:
        outcome = ApplyOutcome(target, bronze_found=False)
    else:
        _check_instance(found, capture_instance)
        named = _keys(found, capture_instance, given) if keys is None else tuple(keys)
        table = _table(call, found, named, granularity, storage_options or {})
        table = replace(table, instance=capture_instance, keeps_deleted=None)
        outcome = apply_one(table if given is None else _as_told(table, given))
        if spark is not None and outcome.bronze_found:
            _register(call, found)
    if not outcome.bronze_found:
        _log.warning("%s does not exist: nothing was applied to %s", bronze, target)
    return _applied(outcome)


def _options(given: Mapping[str, str], instance: str | None) -> Options:
    """The stream's options; the instance that the call names may be left out there."""
    names = {name.lower() for name in given}
    if instance is not None and not names & {"captureinstance", "table"}:
        given = {**given, "captureInstance": instance}
    return read_options(given)


def _as_told(table: SilverTable, given: Options) -> SilverTable:
    """What the options say of silver; where they name a table of the settings, those do."""
    _, key, settings = settings_of(given)
    is_told = "table" in given.stream or "deletes" in given.table
    return replace(
        table,
        instance=table.instance or settings.instance_of(key),
        keeps_deleted=settings.keeps_deleted(key) if is_told else None,
        change_data_feed=settings.has_change_data_feed(key),
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """The tables as the caller names them."""

    spark: Any
    bronze: str
    target: str
    control: str
    facts: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    """Where they are, what control and the facts call them, and bronze's events."""

    name: PlacedTable
    events: Sequence[FactsRow]


def _found(call: _Call, options: StorageOptions) -> _Found | None:
    """The tables of a call; None where a catalog has no such bronze."""
    places = Places.of(_place(call, call.control), catalog_of(call.spark))
    facts = _place(call, call.facts) if call.facts else places.beside("facts")
    rows = frozenset(control_rows(places.control, options) or ())
    told = ToldFacts.at(facts, options) if call.facts else None
    targets = told.targets() if told else frozenset()
    source = places.of_call(call.bronze, rows)
    if source is None:
        _check_session(call, call.bronze)
        return None
    target = places.there(facts).row_at(targets, source)
    if target is None:
        _check_target(call, targets, source, options)
        target = canonical(source, lake_of(facts))
    name = PlacedTable(
        PlacedDatabaseName("", places.lake or "", places.control, facts),
        key_of(told.app_ids(target) if told else (), source),
        bronze_target=target,
        bronze_in_control=places.row(rows, call.bronze) or places.name(call.bronze),
        bronze_place=source,
        silver_in_control=places.row(rows, call.target) or _name(places, call),
        silver_place=places.of_call(call.target, rows) or _place(call, call.target),
    )
    return _Found(name, told.events(target) if told else ())


def _check_target(
    call: _Call, targets: frozenset[str], source: str, options: StorageOptions
) -> None:
    """Raise `SettingsError` for a bronze that facts of other tables do not know.

    Its snapshots would be missed. Facts that know of no table at all may still come.
    """
    if targets and DeltaTable.is_deltatable(source, storage_options=dict(options)):
        raise SettingsError(
            f"the facts in {call.facts} know no table at {source}; nothing was applied",
            where=call.target,
            hint=f"They know: {listed(sorted(targets))}. Name bronze as they do, or other facts.",
        )


def _check_instance(found: _Found, instance: str | None) -> None:
    """Raise `CaptureInstanceUnknownError` for one that the facts do not have of this table."""
    known = instance_names(found.events)[found.name.bronze]
    if instance is None or not known or folded(instance) in map(folded, known):
        return
    raise CaptureInstanceUnknownError(
        f"it is not read from a capture instance {instance}; nothing was applied",
        where=found.name.bronze,
        hint=f"Known are: {listed(sorted(known))}.",
    )


def _table(
    call: _Call,
    found: _Found,
    keys: tuple[str, ...],
    granularity: Granularity,
    options: StorageOptions,
) -> SilverTable:
    worker = Worker(call.spark, options, found.name.silver_place)
    by_spark = None if call.spark is None else worker.alter
    return SilverTable(
        name=found.name,
        lake=Lake(found.name.database, options, by_spark),
        choose=worker.choose,
        engine=worker.engine,
        keys=keys,
        granularity=granularity,
        has_facts=call.facts is not None,
    )


def _place(call: _Call, name: str) -> str:
    """Where a table is, or belongs that is not there yet."""
    if is_place(name):
        return place(name)
    _check_session(call, name)
    catalog = SparkCatalog(call.spark)
    return catalog.place_of(name) or catalog.new_place(name)


def _check_session(call: _Call, name: str) -> None:
    if call.spark is None:
        raise SettingsError(
            f"{name} is a name of a catalog, and there is no session",
            hint="Pass the session, or the table's path.",
        )


def _name(places: Places, call: _Call) -> str:
    """What control will call a silver that it has no row of."""
    return canonical(places.of_call(call.target) or _place(call, call.target), places.lake)


def _keys(found: _Found, instance: str | None, options: Options | None) -> tuple[str, ...]:
    """No key where a snapshot has recorded one: the core takes that; else the source's."""
    if any(snapshots_of(found.events).keys.values()):
        return ()
    if options is None:
        raise SilverKeyError(
            "its key is unknown: no snapshot has recorded it",
            where=str(found.name),
            hint="Pass keys, or the stream's options, through which the source is asked.",
        )
    keys = unique_index(options, instance)
    if not keys:
        raise SilverKeyError(
            "its key is unknown: the capture instance has no unique index",
            where=str(found.name),
            hint="Pass keys.",
        )
    return keys


def _register(call: _Call, found: _Found) -> None:
    """Give tables that the call has made their names in the catalog."""
    catalog = SparkCatalog(call.spark)
    for name, uri in (
        (call.target, found.name.silver_place),
        (call.control, found.name.database.control_uri),
    ):
        if not is_place(name):
            catalog.register(name, uri)


def _applied(outcome: ApplyOutcome) -> Applied:
    return {
        "rebuilt": outcome.rebuilt,
        "applied_lsn": None if outcome.applied_lsn is None else str(outcome.applied_lsn),
        "finalized_until": outcome.finalized_until,
        "bronze_found": outcome.bronze_found,
        "rows_upserted": outcome.upserted,
        "rows_deleted": outcome.deleted,
        "waves_applied": outcome.waves,
        "overtaken": outcome.overtaken,
        "hold": None if outcome.hold is None else str(outcome.hold),
    }
