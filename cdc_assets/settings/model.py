"""The settings as frozen models: names, types, defaults, limits and their help, once."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cdc_assets.contract import SnapshotMode
from cdc_assets.settings import masters
from cdc_assets.settings.lakes import wants_one_engine
from cdc_assets.settings.running import AlertSettings, ContinuousSettings, SilverTrigger
from cdc_assets.settings.tables import (
    DataLossPolicy,
    DeletePolicy,
    EngineName,
    FinalitySettings,
    SchemaChangePolicy,
    TableDefaults,
    TableSettings,
)
from cdc_assets.settings.upkeep import MaintenanceSettings
from cdc_assets.settings.values import Key, LakeUri, SettingsModel, Zone

PARALLEL_TABLES_MAX = 64
"""Tables that one run may be told to read at the same time."""

ARROW_RANK_ROWS_MAX = 1_500_000
"""Rows that the arrow engine ranks at once where the settings say nothing."""


class SparkSettings(SettingsModel):
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


class DatabaseSettings(SettingsModel):
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
    of its own; the check `unique_keys` counts as many at once."""

    max_connections: int = Field(default=16, ge=1, le=1024)
    """Connections of one run at the same time; Spark's tasks open their own."""

    batch_rows: int = Field(default=65_535, ge=1, le=1 << 20)
    """Rows that one reader fetches at once, at most."""

    batch_bytes: int = Field(default=8 << 20, ge=64 << 10, le=1 << 30)
    """Bytes that one reader fetches at once; it holds two such buffers while it reads ahead. More
    is not faster: with 64 MiB wide rows took twice the processor time, and eight times the memory
    of each connection."""

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

    silver: SilverTrigger = SilverTrigger.SENSOR
    """When silver follows bronze: in a run of its own that a sensor asks for, or in the run that
    brought bronze along, for less latency; the sensor then asks for what was missed."""

    continuous: ContinuousSettings | None = None
    """One run that keeps polling, for seconds of latency, in place of a sync every minute."""

    alerts: AlertSettings | None = None
    """Who is told when something turns red or green again; nobody when left out."""

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

    def is_paused(self, table: str) -> bool:
        """Whether the table stands still."""
        return self.tables[table].paused

    @property
    def active(self) -> tuple[str, ...]:
        """The tables that do not stand still."""
        return tuple(table for table in self.tables if not self.is_paused(table))

    def instance_of(self, table: str) -> str:
        """The capture instance the table is read from."""
        return self.tables[table].capture_instance or table


class Settings(SettingsModel):
    """All of `tables.yaml`."""

    databases: dict[Key, DatabaseSettings] = Field(min_length=1)
    """The databases, by key."""
