"""The settings of one table, and those that the tables of a database have in common."""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from cdc_assets.contract import SnapshotMode
from cdc_assets.names import NAME_LENGTH_MAX
from cdc_assets.settings.values import Duration, Owner, Rename, SettingsModel, Tags

CHUNK_ROWS_MAX = 1_000_000_000
"""Rows of a chunk that may be asked for."""

WAVE_SECONDS_MAX = 86_400.0
"""Seconds of a wave that may be asked for: a day."""


class EngineName(StrEnum):
    """Which engine does the heavy work."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


class DataLossPolicy(StrEnum):
    """What a loss of changes leads to."""

    FAIL = "fail"
    RESNAPSHOT = "resnapshot"
    SKIP = "skip"


class DeletePolicy(StrEnum):
    """What silver does with a deleted row."""

    HARD = "hard"
    SOFT = "soft"


class SchemaChangePolicy(StrEnum):
    """What a change of the source table's schema leads to."""

    CONTINUE = "continue"
    FAIL = "fail"


class FinalitySettings(SettingsModel):
    """When a period counts as complete, and how late that may be."""

    granularity: Literal["second", "minute", "hour", "day"] = "hour"
    """Length of the periods that the verdict speaks of."""

    allowed_delay: Duration = timedelta(minutes=15)
    """How long after its end a period may stay open before the check `finalized` turns red."""

    final_from: date = date(2026, 1, 1)
    """First day (UTC) whose hours the asset `final` has, where the granularity is the hour; an hour
    is released once it is final, from the first one after the table's first snapshot on."""


class TableSettings(SettingsModel):
    """One table; what it leaves out comes from the database's `defaults`."""

    paused: bool = False
    """Whether the table stands still: no sync, snapshot or apply touches it, and its checks say so.
    What changes meanwhile waits at the source for as long as CDC keeps it, and no longer."""

    capture_instance: str | None = None
    """Capture instance to read; the table's key when left out."""

    keys: tuple[str, ...] | None = None
    """Key of silver, in the lake's names: the columns of a unique index of the table; those of
    the capture instance's when left out."""

    keys_unchecked: bool = False
    """Whether `keys` may be other columns. No two rows may have the same all the same; a commit
    in which a row's key passes to another row then stops the table's silver."""

    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Captured columns to load, by their names at the source; all of them when left out."""

    rename: Rename = Field(default_factory=dict)
    """Columns that have another name in the lake than at the source: `source: name`."""

    scd: Literal[1, 2] | None = None
    """2 keeps a history beside silver, with every state of each row; 1 keeps silver alone."""

    deletes: DeletePolicy | None = None
    """What silver does with deleted rows: `soft` keeps them, and when it was in `_deleted_at`."""

    change_data_feed: bool | None = None
    """Whether Delta's change data feed of silver is turned on; false leaves it as it is."""

    owner: Owner | None = None
    """Owner in Dagster: an e-mail address or team:name."""

    tags: Tags = Field(default_factory=dict)
    """Tags of the table's assets in Dagster, to find and select them by."""

    engine: EngineName | None = None
    """Engine of this table."""

    snapshot: SnapshotMode | None = None
    """How the rows that are there already are loaded: in one commit, or in chunks beside the
    changes, for a table that takes longer to read than the source keeps its changes."""

    chunk_rows: int | None = Field(default=None, ge=1, le=CHUNK_ROWS_MAX)
    """Rows of a chunk of a chunked snapshot, about; what is planned already keeps its own. When
    left out here and in `defaults`, as many as make a wave take about `wave_seconds`."""

    wave_seconds: float | None = Field(default=None, ge=1, le=WAVE_SECONDS_MAX)
    """Seconds that a wave of `num_partitions` chunks is to take, about, unless the table has
    `chunk_rows`: by what was measured of reads when its snapshot is planned, for all its waves."""

    chunk_column: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)] | None = None
    """Captured column, by its name at the source, that chunks are cut on; the unique index's
    columns when left out. A table without one is a single chunk, unless this names a column."""

    max_waves: int | None = Field(default=None, ge=1)
    """Waves of chunks that one backfill reads; it goes on when it is called again."""

    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds after which a backfill begins no further wave."""

    min_headroom_hours: float | None = Field(default=None, ge=0)
    """Hours that cleanup must be behind the table's changes for a backfill to go on; below
    that it pauses, so that the changes catch up first. 0 never pauses."""

    on_data_loss: DataLossPolicy | None = None
    """What happens when cleanup removed changes before they were read."""

    schema_change_policy: SchemaChangePolicy | None = None
    """What happens when the source table's schema was changed."""

    max_commits_per_batch: int | None = Field(default=None, ge=1)
    """Commits with rows for the table that go into one bronze commit."""

    include_command_id: bool | None = None
    """Whether the change table has `__$command_id`; some builds of SQL Server 2016 lack it."""

    snapshot_on_switch: bool | None = None
    """Whether the table is read anew once a second capture instance with new columns is read."""

    finality: FinalitySettings | None = None
    """When a period of this table counts as complete."""


class TableDefaults(SettingsModel):
    """What tables have in common."""

    engine: EngineName = EngineName.AUTO
    """Engine of the tables."""

    snapshot: SnapshotMode = SnapshotMode.FULL
    """How the rows that are there already are loaded: in one commit, or in chunks beside the
    changes, for tables that take longer to read than the source keeps their changes."""

    chunk_rows: int | None = Field(default=None, ge=1, le=CHUNK_ROWS_MAX)
    """Rows of a chunk of a chunked snapshot, about; by default as many as make a wave take about
    `wave_seconds`."""

    wave_seconds: float = Field(default=60.0, ge=1, le=WAVE_SECONDS_MAX)
    """Seconds that a wave of chunks is to take, about: what a call that dies has to read again."""

    max_waves: int | None = Field(default=None, ge=1)
    """Waves of chunks that one backfill reads; all there are by default."""

    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds after which a backfill begins no further wave; none by default."""

    min_headroom_hours: float = Field(default=6.0, ge=0)
    """Hours that cleanup must be behind a table's changes for a backfill to go on."""

    on_data_loss: DataLossPolicy = DataLossPolicy.FAIL
    """What happens when cleanup removed changes before they were read."""

    schema_change_policy: SchemaChangePolicy = SchemaChangePolicy.CONTINUE
    """What happens when the source table's schema was changed."""

    max_commits_per_batch: int | None = Field(default=None, ge=1)
    """Commits with rows for a table that go into one bronze commit; all there are by default."""

    include_command_id: bool = True
    """Whether change tables have `__$command_id`; some builds of SQL Server 2016 lack it."""

    snapshot_on_switch: bool = False
    """Whether a table is read anew once a second capture instance with new columns is read: else
    they stay NULL in rows that do not change."""

    resnapshot_interval_days: int = Field(default=7, ge=0, le=3650)
    """Days between two automatic re-snapshots of a table; a loss before that needs a person."""

    scd: Literal[1, 2] = 1
    """2 keeps histories beside silver, with every state of each row; 1 keeps silver alone."""

    deletes: DeletePolicy = DeletePolicy.HARD
    """What silver does with a deleted row: `hard` removes it, `soft` keeps it with the time of its
    delete in `_deleted_at`."""

    change_data_feed: bool = False
    """Whether Delta's change data feed of silver is turned on, which tells its readers of each row
    that a commit changed or removed; false leaves it as it is."""

    finality: FinalitySettings = FinalitySettings()
    """When a period counts as complete."""
