"""Where a silver table is and what it is made of: by the settings, or as a caller says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cdc_assets.engines.database import Database
from cdc_assets.engines.door import Engine
from cdc_assets.lake.lake import Lake
from cdc_assets.names import TableName
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.settings.model import ARROW_RANK_ROWS_MAX

Choose = Callable[[str, int | None], EngineChoice]
"""Which engine works, by what only Spark can do, as the end of a sentence, and the rows to read."""


@dataclass(frozen=True)
class SilverTable:
    """One silver table: its places, its key, and who works on it.

    `name` says where bronze and silver are and what the facts and control call them, `lake` where
    those are. `keys` are those that were named, by their names in the lake; without any the
    snapshot's count; `keys_unchecked` says that no unique index has them. `instance` is the capture
    instance that bronze began with, where that is known: rows of one that is not of its table end a
    call. `renamed` gives the source's columns their names in the lake, where those differ.
    `granularity` is the verdict's; None takes bronze's as it is. Without `has_facts` nothing is
    known of snapshots but their rows, and the verdict is never moved. `rank_rows_max` is how many
    rows the arrow engine ranks at once. With `keeps_deleted` silver marks the rows that are
    deleted; None does as it did before. With `change_data_feed` its property for that is set.
    """

    name: TableName
    lake: Lake
    choose: Choose
    engine: Callable[[EngineChoice], Engine]
    keys: tuple[str, ...] = ()
    keys_unchecked: bool = False
    instance: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict, hash=False)
    granularity: str | None = None
    has_facts: bool = True
    rank_rows_max: int = ARROW_RANK_ROWS_MAX
    keeps_deleted: bool | None = False
    change_data_feed: bool = False


def table_of(database: Database, key: str) -> SilverTable:
    """A table of the settings."""
    settings = database.settings
    return SilverTable(
        name=database.table(key),
        lake=database.lake,
        choose=lambda beyond, rows: database.choose(key, beyond, rows),
        engine=database.engine,
        keys=settings.tables[key].keys or (),
        keys_unchecked=settings.tables[key].keys_unchecked,
        instance=settings.instance_of(key),
        renamed=settings.tables[key].rename,
        rank_rows_max=settings.arrow_rank_rows_max,
        keeps_deleted=settings.keeps_deleted(key),
        change_data_feed=settings.has_change_data_feed(key),
    )
