"""What we ask of Delta tables: columns, names, ids, rows, and commits that others overtake."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, QueryBuilder, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from cdc_assets.contract import Column
from cdc_assets.errors import CommitConflictError, TableFeatureError, TableReplacedError
from cdc_assets.lake.failures import is_conflict, lake_failures
from cdc_assets.lake.features import beyond_reading, beyond_writing
from cdc_assets.planning.columns import check_unmapped
from cdc_assets.planning.plans import AppendPlan, CommitTag

StorageOptions = Mapping[str, str]

COMMIT_ATTEMPTS_MAX = 30
"""Tries of a small commit that loses to other writers."""
APPEND_ATTEMPTS_MAX = 4
"""Tries of an append: each reads the source again."""
COMMIT_WAIT_SECONDS_MAX = 2.0
"""Longest jittered wait between tries; they grow up to it."""

MAPPING_MODE = "delta.columnMapping.mode"
"""Table property under which columns have other names in the files than in the schema."""

_PHYSICAL_NAME = "delta.columnMapping.physicalName"

_DELTA_TYPES = {
    "BOOLEAN": "boolean",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "TIMESTAMP_NTZ": "timestamp_ntz",
    "TIMESTAMP": "timestamp",
    "STRING": "string",
    "BINARY": "binary",
}
_SPARK_TYPES = {delta: spark for spark, delta in _DELTA_TYPES.items()}

T = TypeVar("T")


def is_mapped(table: DeltaTable) -> bool:
    """Whether the table maps columns by name, and may have any name for them."""
    return str(table.metadata().configuration.get(MAPPING_MODE) or "none") != "none"


def check_names(table: DeltaTable, columns: tuple[Column, ...], *, where: str) -> None:
    """Raise `UnsupportedColumnError` for a column whose name this table cannot hold."""
    if not is_mapped(table):
        names = {field.name for field in table.schema().fields}
        check_unmapped((column.name for column in columns), names, where=where)


def beyond_arrow(table: DeltaTable, columns: tuple[Column, ...]) -> str:
    """What delta-rs cannot do to write these columns, as the end of a sentence; else empty."""
    names = {field.name for field in table.schema().fields}
    new = [column.name for column in columns if column.name not in names]
    if new and is_mapped(table):
        return f"add the column {new[0]!r} to a table that maps columns by name"
    return beyond_writing(table)


def delta_schema(columns: tuple[Column, ...]) -> Schema:
    """Declared columns as Delta's schema."""
    return Schema([_field(column) for column in columns])


def _field(column: Column) -> Field:
    kind = _DELTA_TYPES.get(column.type) or column.type.lower()
    comment = {"comment": column.comment} if column.comment else {}
    return Field(column.name, PrimitiveType(kind), nullable=True, metadata=comment)


def columns_of(table: DeltaTable) -> tuple[Column, ...]:
    """A table's columns as declared ones."""
    found = []
    for field in table.schema().fields:
        kind = str(getattr(field.type, "type", field.type))
        spark = _SPARK_TYPES.get(kind) or kind.upper()
        found.append(Column(field.name, spark, str(field.metadata.get("comment", ""))))
    return tuple(found)


def table_id(table: DeltaTable) -> str:
    """Delta's id of a table: a re-created one is another."""
    return str(table.metadata().id)


def file_columns(table: DeltaTable, names: Sequence[str]) -> list[list[Any]]:
    """What the log says of each file under these names, such as `size_bytes`; None where nothing.

    One list a name, all in the same order of files.
    """
    found = pa.table(table.get_add_actions(flatten=True))
    nothing = [None] * found.num_rows
    return [found[name].to_pylist() if name in found.column_names else nothing for name in names]


def file_actions(table: DeltaTable, name: str) -> list[Any]:
    """What the log says of each file under one name."""
    return file_columns(table, [name])[0]


def file_statistics(table: DeltaTable, column: str) -> list[tuple[Any, Any]]:
    """The smallest and largest value of a column in each file, in the order of `file_actions`."""
    (name,) = physical_names(table, [column])
    return list(zip(*file_columns(table, [f"min.{name}", f"max.{name}"]), strict=True))


def physical_names(table: DeltaTable, columns: Sequence[str]) -> list[str]:
    """What statistics call columns: where names are mapped, they go by the files' names."""
    metadata = {field.name: field.metadata for field in table.schema().fields}
    return [str(metadata.get(name, {}).get(_PHYSICAL_NAME) or name) for name in columns]


def commit_properties(tag: CommitTag, retries: int | None = None) -> CommitProperties:
    """What a commit carries; None retries as often as delta-rs does by itself."""
    return CommitProperties(
        custom_metadata={"userMetadata": tag.user_metadata},
        max_commit_retries=retries,
        app_transactions=[Transaction(tag.app_id, tag.version)],
    )


def check_same(found: str, planned: str | None, *, where: str) -> None:
    """Raise `TableReplacedError` for a table that is not the planned one any more."""
    if planned not in (None, found):
        raise TableReplacedError(
            "another table has taken its place since this was planned; nothing was written",
            where=where,
            hint="It was reset meanwhile. Run it again.",
        )


def table_to_append(plan: AppendPlan, options: StorageOptions) -> DeltaTable | None:
    """The table that a plan is for; None where its tag is committed already.

    Raises `TableReplacedError`. A reset after this look is a change of the table's metadata, to
    which the commit loses.
    """
    table = DeltaTable(plan.uri, storage_options=dict(options))
    check_same(table_id(table), plan.table_id, where=plan.table)
    done = table.transaction_version(plan.tag.app_id)
    return table if done is None or done < plan.tag.version else None


def query(sql: str, **tables: DeltaTable) -> pa.Table:
    """Run a SELECT over Delta tables, by the names given; deletion vectors are honoured.

    Raises `TableFeatureError` for a table that only Spark can read, and the errors of
    `lake_failures`, for the first of the tables.
    """
    with lake_failures(next((table.table_uri for table in tables.values()), "")), _as_deltas():
        return plain(_reader(sql, tables).read_all())


def query_batches(sql: str, **tables: DeltaTable) -> Generator[pa.RecordBatch]:
    """The same a batch at a time, for what would not fit into memory; in no order."""
    with lake_failures(next((table.table_uri for table in tables.values()), "")), _as_deltas():
        for batch in _reader(sql, tables):
            yield from plain(pa.Table.from_batches([batch])).to_batches()


def _reader(sql: str, tables: Mapping[str, DeltaTable]) -> pa.RecordBatchReader:
    builder = QueryBuilder()
    for name, table in tables.items():
        if beyond := beyond_reading(table):
            raise TableFeatureError(
                f"delta-rs cannot {beyond}", where=table.table_uri, hint="Read it with Spark."
            )
        builder = builder.register(name, table)
    # pyarrow's reader: delta-rs's own waits for its workers without letting go of the GIL,
    # which a worker needs for the next rows of a stream of ours. Then nothing moves again.
    return pa.RecordBatchReader.from_stream(builder.execute(sql))


@contextmanager
def _as_deltas() -> Iterator[None]:
    """DataFusion's own errors cross pyarrow's reader as text: let them out as delta-rs's."""
    try:
        yield
    except pa.ArrowException as error:
        raise DeltaError(str(error)) from error


def plain(table: pa.Table) -> pa.Table:
    """DataFusion's view types as the plain ones that everything else expects.

    Without the columns' comments: a MERGE that adds columns refuses two comments for one column.
    """
    kinds = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [pa.field(f.name, kinds.get(f.type, f.type), f.nullable) for f in table.schema]
    return table.cast(pa.schema(fields))


def retry_conflicts(
    attempt: Callable[[], T], *, where: str, attempts_max: int = COMMIT_ATTEMPTS_MAX
) -> T:
    """Make a commit again, from a fresh read each time, while another writer comes first.

    Raises `CommitConflictError` at the limit.
    """
    for tries in range(1, attempts_max + 1):
        try:
            return attempt()
        except DeltaError as error:
            if not is_conflict(error):
                raise
            wait_seconds_max = min(COMMIT_WAIT_SECONDS_MAX, 0.01 * 2**tries)
            time.sleep(random.uniform(0, wait_seconds_max))  # noqa: S311 - no secret
    raise CommitConflictError(
        f"another writer committed first, {attempts_max} times",
        where=where,
        hint="Run it again; if it stays, see which other job writes the table.",
    )
