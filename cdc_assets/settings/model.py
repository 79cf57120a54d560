"""The settings as frozen models: names, types, defaults, limits and their help, once."""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from cdc_assets.contract import SnapshotMode
from cdc_assets.names import NAME_LENGTH_MAX
from cdc_assets.settings import masters
from cdc_assets.settings.lakes import wants_one_engine
from cdc_assets.settings.upkeep import MaintenanceSettings
from cdc_assets.settings.values import Duration, Key, LakeUri, Owner, Rename, Zone

PARALLEL_TABLES_MAX = 64
"""Tables that one run may be told to read at the same time."""

CHUNK_ROWS_MAX = 1_000_000_000
"""Rows of a chunk that may be asked for."""

ARROW_RANK_ROWS_MAX = 2_000_000
"""Rows that the arrow engine ranks at once where the settings say nothing."""

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


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FinalitySettings(_Model):
    """When a period counts as complete, and how late that may be."""

    granularity: Literal["second", "minute", "hour", "day"] = "hour"
    """Length of the periods that the verdict speaks of."""

    allowed_delay: Duration = timedelta(minutes=15)
    """How long after its end a period may stay open before the check `finalized` turns red."""

    final_from: date = date(2026, 1, 1)
    """First day (UTC) whose hours the asset `final` has, where the granularity is the hour; an hour
    is released once it is final, from the first one after the table's first snapshot on."""


class TableSettings(_Model):
    """One table; what it leaves out comes from the database's `defaults`."""

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


class TableDefaults(_Model):
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


class SparkSettings(_Model):
    """The Spark session, where a table's engine is Spark."""

    master: Annotated[str, AfterValidator(masters.master)] = Field(default="local[*]", repr=False)
    """Where Spark runs: local[*] in the run's own process; spark://, yarn or k8s:// for a cluster
    with the driver in it; sc://host:port for a Spark Connect server."""

    conf: dict[str, str] = Field(default_factory=dict, repr=False)
    """Spark configuration, added to what the engine sets."""

    min_rows: int = Field(default=5_000_000, ge=1)
    """Rows of one piece of work from which `engine: auto` takes Spark, where that is a cluster."""

    @property
    def is_cluster(self) -> bool:
        """Whether Spark has more than this machine."""
        return not masters.is_local(self.master)


class DatabaseSettings(_Model):
    """One SQL Server database and where its tables go."""

    connection: str = Field(default="file:.cdc/sandbox/sales.odbc", repr=False)
    """ODBC connection string; better `file:PATH` of a file or `env:NAME` of a variable that holds
    it. The sandbox's by default."""

    ca_file: str | None = None
    """Certificate authority that the server's certificate is verified with."""

    lake: LakeUri = "./lake"
    """Folder or URI of the lake."""

    storage_options: dict[str, str] = Field(default_factory=dict, repr=False)
    """Credentials of the lake, as delta-rs names them; Spark gets them as Hadoop's."""

    max_parallel_tables: int = Field(default=4, ge=1, le=PARALLEL_TABLES_MAX)
    """Tables read at the same time."""

    num_partitions: int = Field(default=2, ge=1, le=256)
    """Connections that read one large table at the same time."""

    rows_per_range_min: int = Field(default=50_000, ge=1)
    """Change rows that are worth a connection of their own."""

    arrow_rank_rows_max: int = Field(default=ARROW_RANK_ROWS_MAX, ge=1)
    """Rows of bronze that the arrow engine ranks at once, in memory: about a gigabyte for four
    million of ten columns. An apply or a rebuild of more goes key range by key range, each a MERGE
    of its own."""

    max_connections: int = Field(default=16, ge=1, le=1024)
    """Connections of one run at the same time; Spark's tasks open their own."""

    batch_rows: int = Field(default=65_535, ge=1, le=1 << 20)
    """Rows that one reader fetches at once, at most."""

    batch_bytes: int = Field(default=8 << 20, ge=64 << 10, le=1 << 30)
    """Bytes that one reader fetches at once; it holds two such buffers while it reads ahead."""

    max_value_bytes: int = Field(default=64 << 20, ge=8 << 10, le=1 << 30)
    """Largest value of a (max) column that is loaded; of text, its UTF-16 code units count."""

    connect_timeout_seconds: int = Field(default=5, ge=1, le=300)
    """How long one try to connect may take; there are four."""

    lock_timeout_ms: int | None = Field(default=None, ge=0)
    """How long a read of a source table may wait for a lock."""

    isolation: Literal["read_committed", "snapshot"] = "read_committed"
    """Isolation of source reads; `snapshot` needs ALLOW_SNAPSHOT_ISOLATION."""

    source_time_zone: Zone | None = None
    """Windows name of the server's time zone, as in `sys.time_zone_info`; asked for since 2022."""

    spark: SparkSettings = SparkSettings()
    """The Spark session."""

    maintenance: MaintenanceSettings = MaintenanceSettings()
    """Upkeep of the tables' files, old versions and facts."""

    defaults: TableDefaults = TableDefaults()
    """What its tables have in common."""

    tables: dict[Key, TableSettings] = Field(min_length=1)
    """The tables, by key."""

    @model_validator(mode="before")
    @classmethod
    def _empty_tables(cls, value: Any) -> Any:
        # `dbo_orders:` alone is None in YAML and means: everything by default.
        if isinstance(value, dict) and isinstance(value.get("tables"), dict):
            tables = {k: {} if v is None else v for k, v in value["tables"].items()}
            return {**value, "tables": tables}
        return value

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        if wants_one_engine(self.lake) and self.spark.is_cluster:
            mixed = [key for key in self.tables if self.engine_of(key) is EngineName.AUTO]
            if mixed:
                raise ValueError(
                    f"`engine: auto` of {mixed[0]} may change a table's engine, and on S3 a table"
                    " is written by one alone: say `engine: arrow` or `engine: spark`"
                )
        return self

    def finality_of(self, table: str) -> FinalitySettings:
        """The table's finality, or the database's."""
        return self.tables[table].finality or self.defaults.finality

    def engine_of(self, table: str) -> EngineName:
        """The table's engine, or the database's."""
        return self.tables[table].engine or self.defaults.engine

    def on_data_loss_of(self, table: str) -> DataLossPolicy:
        """The table's policy, or the database's."""
        return self.tables[table].on_data_loss or self.defaults.on_data_loss

    def schema_change_policy_of(self, table: str) -> SchemaChangePolicy:
        """The table's policy, or the database's."""
        return self.tables[table].schema_change_policy or self.defaults.schema_change_policy

    def max_commits_per_batch_of(self, table: str) -> int | None:
        """The table's limit, or the database's; None for no limit."""
        return self.tables[table].max_commits_per_batch or self.defaults.max_commits_per_batch

    def include_command_id_of(self, table: str) -> bool:
        """The table's choice, or the database's."""
        own = self.tables[table].include_command_id
        return self.defaults.include_command_id if own is None else own

    def snapshot_on_switch_of(self, table: str) -> bool:
        """Whether the table is read anew for the columns that a second instance brings."""
        own = self.tables[table].snapshot_on_switch
        return self.defaults.snapshot_on_switch if own is None else own

    def snapshot_of(self, table: str) -> SnapshotMode:
        """How the table's snapshots are taken, or the database's."""
        return self.tables[table].snapshot or self.defaults.snapshot

    def chunk_rows_of(self, table: str) -> int | None:
        """Rows of a chunk of the table, or the database's; None where a wave's time decides.

        A table's own time goes before the database's rows.
        """
        own = self.tables[table]
        return own.chunk_rows or (None if own.wave_seconds else self.defaults.chunk_rows)

    def wave_seconds_of(self, table: str) -> float:
        """Seconds that a wave of the table is to take, or the database's."""
        return self.tables[table].wave_seconds or self.defaults.wave_seconds

    def max_waves_of(self, table: str) -> int | None:
        """The table's limit of waves in one backfill, or the database's; None for no limit."""
        return self.tables[table].max_waves or self.defaults.max_waves

    def max_seconds_of(self, table: str) -> float | None:
        """The table's limit of seconds of one backfill, or the database's; None for no limit."""
        return self.tables[table].max_seconds or self.defaults.max_seconds

    def min_headroom_hours_of(self, table: str) -> float:
        """Hours of retention headroom that the table's backfill wants, or the database's."""
        own = self.tables[table].min_headroom_hours
        return self.defaults.min_headroom_hours if own is None else own

    def scd_of(self, table: str) -> int:
        """2 where the table has a history, or the database's tables do."""
        return self.tables[table].scd or self.defaults.scd

    def keeps_deleted(self, table: str) -> bool:
        """Whether deleted rows stay in the table's silver, or in the database's."""
        return (self.tables[table].deletes or self.defaults.deletes) is DeletePolicy.SOFT

    def has_change_data_feed(self, table: str) -> bool:
        """Whether the table's silver gets a change data feed, or the database's do."""
        own = self.tables[table].change_data_feed
        return self.defaults.change_data_feed if own is None else own

    def instance_of(self, table: str) -> str:
        """The capture instance the table is read from."""
        return self.tables[table].capture_instance or table


class Settings(_Model):
    """All of `tables.yaml`."""

    databases: dict[Key, DatabaseSettings] = Field(min_length=1)
    """The databases, by key."""
