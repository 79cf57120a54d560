"""The Delta tables we write: the only copy of every name, type, comment, event and operation.

Types are Spark SQL's, as text; `lake` and `engines` turn them into their own. All times are
TIMESTAMP_NTZ in UTC. A shipped column is never renamed, retyped or given another meaning; a new
one raises the contract's `version` and gets a migration in `lake`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cdc_assets.names import folded

SCHEMA_VERSION_PROPERTY = "cdc_assets.schemaVersion"
"""Table property holding the version of the contract a table was born with or migrated to."""

KEYS_PROPERTY = "cdc_assets.keys"
"""Table property holding the key that a silver, or a history, was made with, as a JSON list."""

CHANGE_FEED_PROPERTY = "delta.enableChangeDataFeed"
"""Table property under which each commit tells its readers which rows it changed."""


class Operation(IntEnum):
    """`_operation` of a bronze row: SQL Server's `__$operation`, and 0, which is ours."""

    SNAPSHOT = 0
    DELETE = 1
    INSERT = 2
    BEFORE = 3
    AFTER = 4


class Event(StrEnum):
    """`event` of a facts row; NULL on the row of a batch."""

    SNAPSHOT_OPEN = "snapshot_open"
    SNAPSHOT_PLAN = "snapshot_plan"
    SNAPSHOT_CHUNK = "snapshot_chunk"
    BOOTSTRAP = "bootstrap"
    RESNAPSHOT = "resnapshot"
    RECOVERING = "recovering"
    DATA_SKIPPED = "data_skipped"
    SCHEMA_CHANGE = "schema_change"
    CAPTURE_INSTANCE_SEEN = "capture_instance_seen"
    CAPTURE_INSTANCE_SWITCHED = "capture_instance_switched"
    GAP_ACKNOWLEDGED = "gap_acknowledged"
    RESET = "reset"


COMPLETED_SNAPSHOT = (Event.BOOTSTRAP, Event.RESNAPSHOT)
"""Only these two events say that a snapshot is complete."""


class SnapshotMode(StrEnum):
    """How a snapshot is taken: `mode` of its `snapshot_open`, and of the settings."""

    FULL = "full"
    CHUNKED = "chunked"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its Spark SQL type as text, and its comment (empty for sources')."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class TableContract:
    """One kind of table: what it is, the version of its shape, and the columns we define."""

    kind: str
    version: int
    comment: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


_BRONZE_BEFORE = (
    Column("_capture_instance", "STRING", "Capture instance the row came from."),
    Column(
        "_start_lsn",
        "STRING",
        "Commit LSN, 0x and 20 hex digits; string order is LSN order. On snapshot rows the LSN"
        " recorded before the table, or the row's chunk, was read.",
    ),
    Column("_seqval", "STRING", "Order of the change in its transaction; NULL on snapshot rows."),
    Column(
        "_operation",
        "INT",
        "0 snapshot row, 1 delete, 2 insert, 3 row before an update, 4 row after it.",
    ),
    Column(
        "_command_id",
        "INT",
        "Order of the statement in its transaction, per capture instance; NULL on snapshot rows.",
    ),
    Column("_commit_ts", "TIMESTAMP_NTZ", "Commit time in UTC; never goes back along LSN order."),
)
_BRONZE_AFTER = (
    Column("_batch_id", "INT", "Batch that appended the row; NULL on snapshot rows."),
    Column("_snapshot", "STRING", "On snapshot rows, the snapshot's LSN; NULL on changes."),
    Column("_chunk", "INT", "Chunk of a chunked snapshot; NULL on whole ones and on changes."),
)

BRONZE = TableContract(
    "bronze",
    1,
    "Every change of one SQL Server table, append-only. An update is two rows, and snapshot rows"
    " overlap the changes after them: take the latest image per key by (_start_lsn,"
    " _command_id, _seqval, _operation).",
    _BRONZE_BEFORE + _BRONZE_AFTER,
)

SILVER = TableContract(
    "silver",
    1,
    "Current state of one SQL Server table: one row per key, deletes removed, or kept with"
    " _deleted_at. Complete up to finalized_until of its row in the control table.",
    (
        Column("_start_lsn", "STRING", "Commit LSN of the row's current image."),
        Column("_commit_ts", "TIMESTAMP_NTZ", "Commit time of the row's current image, in UTC."),
    ),
)

DELETED_AT = Column(
    "_deleted_at",
    "TIMESTAMP_NTZ",
    "Commit time, in UTC, of the delete of the row, whose last image this is; NULL on a row that is"
    " there. Of a row that a snapshot found gone, the snapshot's.",
)
"""Silver's further column where deleted rows are kept (`deletes: soft`)."""

HISTORY = TableContract(
    "history",
    1,
    "Every state of each row of one SQL Server table: which commit it began with, and which one"
    " ended it. A state that a transaction passed through and left again is none. A state of a"
    " moment: _valid_from_lsn at or before it, _valid_to_lsn after it or NULL. Complete up to"
    " finalized_until of its row in the control table, but for what the facts know to be lost.",
    (
        Column("_valid_from_lsn", "STRING", "Commit LSN that the state began with."),
        Column("_valid_from_ts", "TIMESTAMP_NTZ", "Its commit time, in UTC."),
        Column("_valid_to_lsn", "STRING", "Commit LSN that ended it; NULL on the current state."),
        Column("_valid_to_ts", "TIMESTAMP_NTZ", "Its commit time, in UTC."),
    ),
)

FACTS = TableContract(
    "facts",
    1,
    "What each batch, snapshot and change of the source did; append-only. A row with event NULL"
    " is a batch; one without rows says that the table was quiet and the sync alive.",
    (
        Column("app_id", "STRING", "Transaction id of the bronze commit, <table>#changes."),
        Column("batch_id", "BIGINT", "Version of that transaction; NULL on quiet rows and events."),
        Column("target", "STRING", "Table the row is about, as the control table names it."),
        Column("rows", "BIGINT", "Rows appended."),
        Column("min_lsn", "STRING", "Smallest commit LSN of the rows; a snapshot's own LSN."),
        Column("max_lsn", "STRING", "Largest commit LSN of the rows; a snapshot's own LSN."),
        Column("min_commit_ts", "TIMESTAMP_NTZ", "Earliest commit time of the rows, in UTC."),
        Column("max_commit_ts", "TIMESTAMP_NTZ", "Latest commit time of the rows, in UTC."),
        Column("deletes", "BIGINT", "Rows with operation 1."),
        Column("inserts", "BIGINT", "Rows with operation 2."),
        Column("updates", "BIGINT", "Rows with operation 4."),
        Column("started_at", "TIMESTAMP_NTZ", "When the work on the batch began, in UTC."),
        Column("duration_ms", "BIGINT", "Milliseconds from then to the bronze commit."),
        Column("written_at", "TIMESTAMP_NTZ", "When this row was written, in UTC."),
        Column("end_lsn", "STRING", "Last LSN read past: everything up to it is in bronze."),
        Column("end_commit_ts", "TIMESTAMP_NTZ", "Commit time of end_lsn, in UTC."),
        Column("source_rtt_ms", "DOUBLE", "Milliseconds of the poll's first round trip."),
        Column("read_seconds", "DOUBLE", "Seconds spent reading, summed over connections."),
        Column("read_mb", "DOUBLE", "Megabytes of Arrow data read."),
        Column(
            "network_wait_ms",
            "BIGINT",
            "Milliseconds the server waited for us; NULL if not told.",
        ),
        Column(
            "retention_watermark_ts",
            "TIMESTAMP_NTZ",
            "Commit time up to which cleanup had deleted when the batch was read, in UTC.",
        ),
        Column(
            "retention_headroom_hours",
            "DOUBLE",
            "Hours from that time to end_commit_ts; at 0 the next changes are being purged.",
        ),
        Column(
            "source_max_commit_ts",
            "TIMESTAMP_NTZ",
            "Commit time of the last LSN capture had processed, in UTC.",
        ),
        Column("capture_lag_seconds", "DOUBLE", "Seconds from that time to the poll."),
        Column("ingestion_lag_seconds", "DOUBLE", "Seconds from end_commit_ts to written_at."),
        Column("event", "STRING", "NULL on batches; else what happened."),
        Column("detail", "STRING", "The event's payload, as JSON."),
        Column("lost_from_ts", "TIMESTAMP_NTZ", "Where a gap in the changes begins, in UTC."),
        Column("lost_to_ts", "TIMESTAMP_NTZ", "Where it ends, in UTC."),
        Column("engine", "STRING", "Engine that did the work, and why it was chosen."),
    ),
)

CONTROL = TableContract(
    "control",
    1,
    "One row per bronze and silver table: how far it is complete, and its positions.",
    (
        Column("table_name", "STRING", "The table: <layer>/<table>."),
        Column(
            "finalized_until",
            "TIMESTAMP_NTZ",
            "Every period that ends at or before it is complete, in UTC. Never moves back.",
        ),
        Column("end_lsn", "STRING", "Last LSN processed."),
        Column("end_commit_ts", "TIMESTAMP_NTZ", "Its commit time, in UTC."),
        Column("updated_at", "TIMESTAMP_NTZ", "When the row last changed, in UTC."),
        Column("source_object_id", "BIGINT", "Object id of the source table last read."),
        Column("change_object_id", "BIGINT", "Object id of the change table last read."),
        Column("instance_name", "STRING", "Capture instance last read."),
        Column("instance_created_at", "TIMESTAMP_NTZ", "Its create_date, as the server says it."),
        Column("table_id", "STRING", "Delta's id of the table the row speaks of."),
        Column("changed_lsn", "STRING", "Bronze: LSN of its newest change row."),
        Column("applied_lsn", "STRING", "Silver: highest change LSN applied."),
        Column("snapshot_lsn", "STRING", "Silver: snapshot it was last rebuilt from."),
        Column("open_snapshot_lsn", "STRING", "Silver: open chunked snapshot it follows."),
        Column("snapshot_wave", "INT", "Silver: last wave of that snapshot applied."),
        Column("verdict_version", "BIGINT", "Silver: its Delta version at its verdict."),
    ),
)

PLANS = TableContract(
    "plans",
    2,
    "The chunks of chunked snapshots, each planned once. Key values stand here and in bronze"
    " alone: the facts name a plan and the numbers of its chunks.",
    (
        Column("target", "STRING", "Table the plan is of, as the facts name it."),
        Column("snapshot", "STRING", "The snapshot's LSN."),
        Column("plan_id", "STRING", "The plan; NULL on what was recorded at the open."),
        Column(
            "chunk",
            "INT",
            "Chunk, from 0 in key order; NULL on what was recorded then, and on the bound that"
            " closed an open last chunk before it was read.",
        ),
        Column("lower", "STRING", "Key its rows begin with, as a JSON list of texts; NULL: open."),
        Column("upper", "STRING", "Key its rows end before, likewise."),
        Column("rows", "BIGINT", "Rows counted when it was planned."),
        Column(
            "keys",
            "STRING",
            "Columns it is cut on: a JSON list of source names, types, collations.",
        ),
        Column("largest", "STRING", "Largest key at the open, as a JSON list of texts."),
        Column("written_at", "TIMESTAMP_NTZ", "When this row was written, in UTC."),
        Column("sizing", "STRING", "Rows that chunks were to have, and why so many, as JSON."),
    ),
)


def bronze_columns(captured: tuple[Column, ...]) -> tuple[Column, ...]:
    """All columns of a bronze table, in order: ours around the captured ones."""
    return (*_BRONZE_BEFORE, *captured, *_BRONZE_AFTER)


def change_columns(captured: tuple[Column, ...]) -> tuple[Column, ...]:
    """Bronze's columns as far as a change has them before it is in bronze, in order."""
    return (*_BRONZE_BEFORE, *captured)


def silver_columns(
    captured: tuple[Column, ...], *, keeps_deleted: bool = False
) -> tuple[Column, ...]:
    """All columns of a silver table, in order: the captured ones, then ours."""
    return (*captured, *SILVER.columns, *((DELETED_AT,) if keeps_deleted else ()))


def history_columns(captured: tuple[Column, ...]) -> tuple[Column, ...]:
    """All columns of a history table, in order: the captured ones, then ours."""
    return (*captured, *HISTORY.columns)


def captured_of_bronze(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The captured columns among a bronze table's columns, in order."""
    return tuple(column for column in columns if column.name not in BRONZE.names)


_OURS = {
    folded(name): name for name in (*BRONZE.names, *SILVER.names, DELETED_AT.name, *HISTORY.names)
}


def our_column(name: str) -> str | None:
    """The column that we define and whose place one of this name would take, or None."""
    return _OURS.get(folded(name))
