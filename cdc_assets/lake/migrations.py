"""What was ever changed about tables that exist: one list per kind, to which is only appended.

A table is born at the newest version, which is the length of its kind's list; one that was written
earlier is brought there when it is opened. A migration that has shipped is never edited, moved or
removed (a test knows them), so what it adds is spelled out here and not taken from the contract.

Version 0 is a table without our property: written by another tool of the same design, whose own
history these first steps follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.contract import Column


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: the columns that must be there, and those that are added where they are missing.

    Rows written before read NULL in an added column. A required column comes without comment.
    """

    about: str
    added: tuple[Column, ...] = ()
    required: tuple[Column, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns it speaks of."""
        return (*self.required, *self.added)


def _columns(type_text: str, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, type_text) for name in names)


_BRONZE = (
    Migration(
        "chunked snapshots, and tables written without command ids",
        added=(
            Column(
                "_command_id",
                "INT",
                "Order of the statement in its transaction, per capture instance; NULL on snapshot"
                " rows.",
            ),
            Column("_batch_id", "INT", "Batch that appended the row; NULL on snapshot rows."),
            Column("_snapshot", "STRING", "On snapshot rows, the snapshot's LSN; NULL on changes."),
            Column(
                "_chunk", "INT", "Chunk of a chunked snapshot; NULL on whole ones and on changes."
            ),
        ),
        required=(
            *_columns("STRING", "_capture_instance", "_start_lsn", "_seqval"),
            *_columns("INT", "_operation"),
            *_columns("TIMESTAMP_NTZ", "_commit_ts"),
        ),
    ),
)

_SILVER = (
    Migration(
        "nothing but the version",
        required=(*_columns("STRING", "_start_lsn"), *_columns("TIMESTAMP_NTZ", "_commit_ts")),
    ),
)

_HISTORY = (
    Migration(
        "nothing but the version",
        required=(
            *_columns("STRING", "_valid_from_lsn", "_valid_to_lsn"),
            *_columns("TIMESTAMP_NTZ", "_valid_from_ts", "_valid_to_ts"),
        ),
    ),
)

_FACTS = (
    Migration(
        "measurements, events, the end offset and the engine",
        added=(
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
        required=(
            *_columns("STRING", "app_id", "target", "min_lsn", "max_lsn"),
            *_columns("BIGINT", "batch_id", "rows", "deletes", "inserts", "updates", "duration_ms"),
            *_columns("TIMESTAMP_NTZ", "min_commit_ts", "max_commit_ts"),
            *_columns("TIMESTAMP_NTZ", "started_at", "written_at"),
        ),
    ),
)

_CONTROL = (
    Migration(
        "silver's position, and which tables and instance the positions speak of",
        added=(
            Column("source_object_id", "BIGINT", "Object id of the source table last read."),
            Column("change_object_id", "BIGINT", "Object id of the change table last read."),
            Column("instance_name", "STRING", "Capture instance last read."),
            Column(
                "instance_created_at", "TIMESTAMP_NTZ", "Its create_date, as the server says it."
            ),
            Column("table_id", "STRING", "Delta's id of the table the row speaks of."),
            Column("changed_lsn", "STRING", "Bronze: LSN of its newest change row."),
            Column("applied_lsn", "STRING", "Silver: highest change LSN applied."),
            Column("snapshot_lsn", "STRING", "Silver: snapshot it was last rebuilt from."),
            Column("open_snapshot_lsn", "STRING", "Silver: open chunked snapshot it follows."),
            Column("snapshot_wave", "INT", "Silver: last wave of that snapshot applied."),
            Column("verdict_version", "BIGINT", "Silver: its Delta version at its verdict."),
        ),
        required=(
            *_columns("STRING", "table_name", "end_lsn"),
            *_columns("TIMESTAMP_NTZ", "finalized_until", "end_commit_ts", "updated_at"),
        ),
    ),
)

_PLANS = (
    Migration(
        "nothing but the version",
        required=(
            *_columns("STRING", "target", "snapshot", "plan_id", "lower", "upper"),
            *_columns("STRING", "keys", "largest"),
            *_columns("INT", "chunk"),
            *_columns("BIGINT", "rows"),
            *_columns("TIMESTAMP_NTZ", "written_at"),
        ),
    ),
    Migration(
        "how large chunks were to be",
        added=(
            Column("sizing", "STRING", "Rows that chunks were to have, and why so many, as JSON."),
        ),
    ),
)

MIGRATIONS: Mapping[str, tuple[Migration, ...]] = {
    "bronze": _BRONZE,
    "silver": _SILVER,
    "history": _HISTORY,
    "facts": _FACTS,
    "control": _CONTROL,
    "plans": _PLANS,
}
"""The steps of each kind of table, oldest first: the n-th makes version n."""
