"""Opening and creating our tables: explicit types, comments, and a version we understand."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, QueryBuilder, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from cdc_assets.contract import SCHEMA_VERSION_PROPERTY, Column, TableContract
from cdc_assets.errors import CommitConflictError, TableNewerError, UnsupportedColumnError

StorageOptions = Mapping[str, str]

COMMIT_ATTEMPTS_MAX = 30
"""Tries of a small commit that loses to other writers."""
APPEND_ATTEMPTS_MAX = 4
"""Tries of an append: each reads the source again."""
COMMIT_WAIT_SECONDS_MAX = 2.0
"""Longest jittered wait between tries; they grow up to it."""

_REFUSED_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
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


def open_table(uri: str, contract: TableContract, options: StorageOptions) -> DeltaTable | None:
    """The table at `uri`, or None; raises `TableNewerError` for one we do not understand."""
    try:
        table = DeltaTable(uri, storage_options=dict(options))
    except TableNotFoundError:
        return None
    version = int(table.metadata().configuration.get(SCHEMA_VERSION_PROPERTY) or 0)
    if version > contract.version:
        raise TableNewerError(
            f"its {contract.kind} schema has version {version}, and this release knows"
            f" {contract.version}",
            where=uri,
            hint="Install the release that wrote it, or a newer one.",
        )
    return table


def ensure_table(
    uri: str,
    contract: TableContract,
    options: StorageOptions,
    columns: tuple[Column, ...] | None = None,
) -> DeltaTable:
    """The table at `uri`, created at the newest version where it is missing.

    `columns` are all of its columns where the contract's are not all. Two creators race safely:
    the loser opens the winner's.
    """
    table = open_table(uri, contract, options)
    if table is not None:
        return table
    try:
        DeltaTable.create(
            uri,
            delta_schema(columns or contract.columns),
            description=contract.comment,
            configuration={SCHEMA_VERSION_PROPERTY: str(contract.version)},
            storage_options=dict(options),
            raise_if_key_not_exists=False,
            # Retried, a lost creation becomes a second commit that gives the table another id.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except DeltaError:
        winner = open_table(uri, contract, options)
        if winner is None:
            raise
        return winner
    return DeltaTable(uri, storage_options=dict(options))


def delta_schema(columns: tuple[Column, ...]) -> Schema:
    """Declared columns as Delta's schema; raises `UnsupportedColumnError` for a refused name."""
    return Schema([_field(column) for column in columns])


def _field(column: Column) -> Field:
    if _REFUSED_IN_NAMES.search(column.name):
        raise UnsupportedColumnError(
            f"column {column.name!r} has a character that Delta refuses in names",
            hint="Leave it out: list the other columns under `columns`.",
        )
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


def query(sql: str, **tables: DeltaTable) -> pa.Table:
    """Run a SELECT over Delta tables, by the names given; deletion vectors are honoured."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder = builder.register(name, table)
    return plain(pa.table(builder.execute(sql).read_all()))


def plain(table: pa.Table) -> pa.Table:
    """DataFusion's view types as the plain ones that everything else expects."""
    fields = []
    for field in table.schema:
        if field.type == pa.string_view():
            fields.append(field.with_type(pa.string()))
        elif field.type == pa.binary_view():
            fields.append(field.with_type(pa.binary()))
        else:
            fields.append(field)
    return table.cast(pa.schema(fields))


def is_conflict(error: Exception) -> bool:
    """Whether a commit failed because another writer was first, and not for what it is.

    delta-rs reports a conflict that it finds while merging under its base class, and an
    unsupported feature or an append-only table under the class of conflicts.
    """
    text = str(error).lower()
    if isinstance(error, CommitFailedError):
        return not any(word in text for word in ("unsupported", "not supported", "append-only"))
    return isinstance(error, DeltaError) and "conflict" in text


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
