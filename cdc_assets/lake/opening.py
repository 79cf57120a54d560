"""Opening and creating our tables: explicit types, comments, and a version we understand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from deltalake import CommitProperties, DeltaTable, TableFeatures, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError

from cdc_assets import faults
from cdc_assets.contract import SCHEMA_VERSION_PROPERTY, Column, TableContract
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.failures import is_conflict, lake_failures
from cdc_assets.lake.migrating import AlterBySpark, check_known, migrated
from cdc_assets.lake.tables import (
    MAPPING_MODE,
    StorageOptions,
    delta_schema,
    is_mapped,
    retry_conflicts,
)
from cdc_assets.planning.columns import is_refused

CHECKPOINT_INTERVAL = "delta.checkpointInterval"
"""Table property: commits after which a writer makes a checkpoint."""
CHECKPOINT_EVERY_COMMITS = 10
"""Most commits that whoever opens a table has to read one by one: Spark's number; delta-rs's own is
100, and opening a table then costs more than a small batch."""

BOOKKEEPING = {"delta.deletedFileRetentionDuration": "interval 1 hours"}
"""Table properties of facts and control, whose files are written anew all day: a checkpoint names
each for as long as this after it went, a week by default, and whoever opens the table reads that.
Nobody reads an old version of them."""

_MAPPING_FEATURE = "columnMapping"


def open_table(
    uri: str,
    contract: TableContract,
    options: StorageOptions,
    by_spark: AlterBySpark | None = None,
) -> DeltaTable | None:
    """The table at `uri`, brought to the contract's version, or None.

    Raises `TableNewerError` for one that a later release has written, `TableReplacedError` for
    one of another kind, both before any write, and as `lake_failures` and `migrated` do.
    """
    with lake_failures(uri):
        try:
            table = DeltaTable(uri, storage_options=dict(options))
        except TableNotFoundError:
            return None
        check_known(table, contract, where=uri)
        table = _with_mapping_feature(table, uri, options)
        return migrated(table, uri, contract, options, by_spark)


def ensure_table(
    uri: str,
    contract: TableContract,
    options: StorageOptions,
    columns: tuple[Column, ...] | None = None,
    by_spark: AlterBySpark | None = None,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """The table at `uri`, created at the newest version, with `properties`, where it is missing.

    `columns` are all of its columns where the contract's are not all; with a name among them that
    Delta refuses, the table maps columns by name. Two creators race safely: the loser opens the
    winner's.
    """
    table = open_table(uri, contract, options, by_spark)
    if table is not None:
        return table
    return create_table(uri, contract, options, columns or contract.columns, properties=properties)


def create_table(
    uri: str,
    contract: TableContract,
    options: StorageOptions,
    columns: tuple[Column, ...],
    *,
    mode: Literal["error", "overwrite"] = "error",
    transaction: Transaction | None = None,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """A new table at `uri`, or with `overwrite` the one there, empty and with another id.

    Where another writer comes first it is what that one has made of it: with `overwrite` that may
    be the old table still, and the caller looks at the id.
    """
    configuration = {
        CHECKPOINT_INTERVAL: str(CHECKPOINT_EVERY_COMMITS),
        **(properties or {}),
        SCHEMA_VERSION_PROPERTY: str(contract.version),
    }
    if any(is_refused(column.name) for column in columns):
        configuration[MAPPING_MODE] = "name"
    with lake_failures(uri):
        try:
            DeltaTable.create(
                uri,
                delta_schema(columns),
                mode=mode,
                description=contract.comment,
                configuration=configuration,
                storage_options=dict(options),
                raise_if_key_not_exists=False,
                # Retried, a lost creation is a second commit that gives the table another id.
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=[transaction] if transaction else None
                ),
            )
        except DeltaError as error:
            winner = open_table(uri, contract, options)
            if winner is None or (mode == "overwrite" and not is_conflict(error)):
                raise
            return winner
        faults.reach(FaultPoint.TABLE_CREATED)
        table = DeltaTable(uri, storage_options=dict(options))
        return _with_mapping_feature(table, uri, options)


def _with_mapping_feature(table: DeltaTable, uri: str, options: StorageOptions) -> DeltaTable:
    """The table, with the feature in its protocol that its mapping needs.

    delta-rs creates a table that maps without it, and a reader that goes by the protocol then
    takes the files' names for the columns'. So it is added at once, in a commit of its own, by
    whoever opens the table first.
    """

    def attempt() -> DeltaTable:
        fresh = DeltaTable(uri, storage_options=dict(options))
        if not _lacks_feature(fresh):
            return fresh
        fresh.alter.add_feature(
            [TableFeatures.ColumnMapping], allow_protocol_versions_increase=True
        )
        return fresh

    return retry_conflicts(attempt, where=uri) if _lacks_feature(table) else table


def _lacks_feature(table: DeltaTable) -> bool:
    return is_mapped(table) and _MAPPING_FEATURE not in (table.protocol().writer_features or ())
