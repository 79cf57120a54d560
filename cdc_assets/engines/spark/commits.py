"""Who committed: a Delta table's newest commits, read through delta-rs, which needs no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.tables import StorageOptions, table_id
from cdc_assets.planning.plans import CommitTag

DELETION_VECTORS = "delta.enableDeletionVectors"
"""Table property that lets a MERGE mark rows instead of rewriting the files they are in."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's newest version, as far as the engine needs it."""

    version: int
    table_id: str
    transaction: int | None
    names: frozenset[str]
    deletion_vectors: bool

    def lacks(self, columns: tuple[Column, ...]) -> bool:
        """Whether one of the columns is missing."""
        return any(column.name not in self.names for column in columns)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of ours: its version and what its operation counted."""

    version: int
    metrics: dict[str, Any]

    def count(self, *names: str) -> int:
        """The sum of the named operation metrics."""
        return sum(int(self.metrics[name]) for name in names)


def table_state(uri: str, options: StorageOptions, app_id: str) -> TableState:
    """A table's newest state, with its transaction of `app_id`."""
    with lake_failures(uri):
        table = DeltaTable(uri, storage_options=dict(options))
    return TableState(
        version=table.version(),
        table_id=table_id(table),
        transaction=table.transaction_version(app_id),
        names=frozenset(field.name for field in table.schema().fields),
        deletion_vectors=table.metadata().configuration.get(DELETION_VECTORS) == "true",
    )


def table_bytes(uri: str, options: StorageOptions, version: int) -> int:
    """How large the files of a table's version are."""
    table = DeltaTable(uri, version=version, storage_options=dict(options))
    sizes = table.get_add_actions().column("size_bytes").to_pylist()
    return sum(size or 0 for size in sizes)


def own_commit(uri: str, options: StorageOptions, tag: CommitTag, since: int) -> Commit | None:
    """Spark's commit after version `since` that carries the tag, or None where another's does.

    Spark skips a transaction version it knows without a word, so a write that raised nothing
    may not have been one.
    """
    table = DeltaTable(uri, storage_options=dict(options))
    newer = table.version() - since
    for entry in table.history(limit=newer) if newer else []:
        by_spark = str(entry.get("engineInfo", "")).startswith("Apache-Spark")
        if by_spark and entry.get("userMetadata") == tag.user_metadata:
            return Commit(int(entry["version"]), dict(entry.get("operationMetrics") or {}))
    return None
