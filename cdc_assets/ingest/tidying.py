"""Small files put together on the way, so that a sync costs the same all week.

A batch a minute leaves ten thousand files until the weekly upkeep, and whoever opens a table reads
what its log says of each. Nothing waits for this and nothing is lost with it: where it fails, the
next turn comes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.ingest.outcome import TableOutcome
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.lake.upkeep import beyond_rewriting, maintain
from cdc_assets.planning.plans import MaintainPlan

SMALL_FILES_MAX = 100
"""Batches of a table, or commits of facts, after which their files are put together."""

TIDY_FILE_BYTES = 16 << 20
"""Files of this size are left alone: the weekly upkeep makes large ones of them."""

_log = logging.getLogger(__name__)


def tidy(database: Database, outcomes: Iterable[TableOutcome]) -> None:
    """Put the small files of the facts together, and of those bronze tables whose turn it is."""
    lake = database.lake
    for outcome in outcomes:
        if any(is_turn(outcome.table, batch_id) for batch_id in outcome.measures):
            name = database.table(outcome.table)
            _put_together(str(name), name.bronze_uri, lake.options)
    with _left_for_later("facts"):
        if lake.facts.files() > SMALL_FILES_MAX:
            _put_together("facts", database.name.facts_uri, lake.options)


def is_turn(table: str, batch_id: int) -> bool:
    """Whether a table is tidied with a batch: tables that are always synced together take turns."""
    return (batch_id + zlib.crc32(table.encode())) % SMALL_FILES_MAX == 0


def _put_together(name: str, uri: str, options: StorageOptions) -> None:
    with _left_for_later(name):
        if not beyond_rewriting(DeltaTable(uri, storage_options=dict(options))):
            maintain(MaintainPlan(name, uri, target_file_bytes=TIDY_FILE_BYTES), options)


@contextmanager
def _left_for_later(name: str) -> Iterator[None]:
    """A failure is told and no more: what the sync did is recorded already."""
    try:
        yield
    except (CdcError, DeltaError, OSError) as error:
        _log.info("%s: its small files are left for later: %s", name, error)
