"""A table's verdict by the names that seed 0019 gives: with a session, for who works in Spark.

The control table, and a table in it, are named by a name of the session's catalog, a path or a
URI; `spark` may be None where no catalog's names are used. What is read and judged is that of
`cdc_assets.finality`: delta-rs reads the tables, with `storage_options` where the environment has
no credentials.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cdc_assets.engines.spark.catalog import SparkCatalog, catalog_of
from cdc_assets.errors import SettingsError, TableReplacedError
from cdc_assets.lake.control import Control
from cdc_assets.lake.places import Places, place
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.lake.verdicts import Bookkeeping, read_verdict
from cdc_assets.planning.advancing import claimed
from cdc_assets.planning.finality import Granularity, Verdict
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.spellings import is_place

_log = logging.getLogger(__name__)


def is_final(  # noqa: PLR0913 - seed 0019's signature, and what it leaves unsaid
    spark: Any,
    control_table: str,
    table_name: str,
    period_end: datetime,
    *,
    facts_table: str | None = None,
    bronze_table: str | None = None,
    granularity: Granularity = "hour",
    storage_options: StorageOptions | None = None,
) -> bool:
    """Whether the period of `granularity` that ends before `period_end` is complete.

    A time without a zone is in UTC. False where the period meets what the facts know to be lost,
    and for a table that control does not have. The facts are those beside control, unless they are
    named; without any, the verdict alone answers. `bronze_table` is what `apply_changes` was given
    as `bronze`, for a silver that is not called `silver/<table>`: where the facts do not know it,
    what is lost of any table counts. Raises `TableReplacedError` where control, or the facts that
    were named, are not there.
    """
    asked = _Asked(table_name, bronze_table, facts_table, granularity)
    return _verdict(spark, control_table, asked, storage_options).is_final(period_end)


def finalized_until(
    spark: Any,
    control_table: str,
    table_name: str,
    *,
    storage_options: StorageOptions | None = None,
) -> datetime | None:
    """The table's verdict, in UTC; None before the first. Raises as `is_final` does."""
    return _verdict(spark, control_table, _Asked(table_name), storage_options).finalized_until


def advance(
    spark: Any,
    control_table: str,
    table_name: str,
    end_offset: Mapping[str, Any] | None,
    *,
    granularity: Granularity = "hour",
    storage_options: StorageOptions | None = None,
) -> datetime | None:
    """Move a table's verdict on to the end of what is committed to it, never back; gives it.

    `end_offset` is a stream's: `{"lsn": "0x…", "commit_ts": "…"}`, UTC. To be called once the
    batch that ends there is committed. Without one, or without its time, nothing moves. A verdict
    that is NULL moves too.

    For tables that a writer of one's own keeps: the verdict of one that a sync, a stream or an
    apply of ours keeps is theirs, and stays. Raises ValueError for an offset that is none.
    """
    places = Places.of(control_table, catalog_of(spark))
    is_new = not is_place(places.control)
    uri = _new_place(spark, control_table) if is_new else places.control
    control = Control(uri, storage_options or {})
    end = _offset(end_offset)
    if end is not None:
        control.update(lambda rows: _moved(rows, places, table_name, end, granularity))
        if is_new:
            SparkCatalog(spark).register(control_table, uri)
    rows = control.read()
    name = places.row(frozenset(rows), table_name)
    return rows[name].finalized_until if name else None


def _moved(
    rows: Mapping[str, ControlRow], places: Places, text: str, end: Offset, granularity: str
) -> Iterator[ControlRow]:
    name = places.row(frozenset(rows), text) or places.name(text)
    row = rows.get(name) or ControlRow(name)
    if row.is_kept:
        _log.warning("%s is kept by a sync or an apply: its verdict stays as they have it", name)
        return
    moved = claimed(row, end, granularity)
    if moved != row:
        yield moved


def _offset(value: Mapping[str, Any] | None) -> Offset | None:
    if not value or not value.get("commit_ts"):
        return None
    try:
        return Offset.from_dict(dict(value))
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            'an offset is {"lsn": "0x" and 20 hex digits, "commit_ts": a time in UTC}'
        ) from None


def _new_place(spark: Any, name: str) -> str:
    if spark is None:
        raise SettingsError(
            f"{name} is a name of a catalog, and there is no session",
            hint="Pass the session, or the path of the control table.",
        )
    return SparkCatalog(spark).new_place(name)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A table as a caller names it, and what its verdict rests on."""

    table: str
    bronze: str | None = None
    facts: str | None = None
    granularity: Granularity = "hour"


def _verdict(
    spark: Any,
    control_table: str,
    asked: _Asked,
    storage_options: StorageOptions | None,
) -> Verdict:
    catalog = catalog_of(spark)
    places = Places.of(control_table, catalog)
    facts = places.beside("facts")
    if asked.facts is not None:
        facts = place(asked.facts) if is_place(asked.facts) else catalog(asked.facts) or asked.facts
    book = None
    if is_place(places.control):
        book = Bookkeeping.read(
            places.control, facts, storage_options or {}, facts_may_lack=asked.facts is None
        )
    if book is None:
        raise TableReplacedError(
            f"there is no control table {control_table}",
            hint="Name it by its path or URI, or by its name in the session's catalog.",
        )
    return read_verdict(book, places, asked.table, asked.bronze, asked.granularity)
