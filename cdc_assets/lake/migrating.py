"""Bringing a table to the version we know: each step once, in order, whoever opens it first.

A step is up to two commits, its columns and then its number. Whoever dies between them, or loses
to another opener, begins again from the table as it is: columns that are there are not added.
"""

from __future__ import annotations

from collections.abc import Callable

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from cdc_assets import faults
from cdc_assets.contract import SCHEMA_VERSION_PROPERTY, Column, TableContract
from cdc_assets.errors import TableNewerError, TableReplacedError, UnsupportedColumnError
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.migrations import MIGRATIONS, Migration
from cdc_assets.lake.tables import StorageOptions, columns_of, delta_schema, retry_conflicts
from cdc_assets.planning.literals import quoted

AlterBySpark = Callable[[str, str], None]
"""Runs `ALTER TABLE <the table at this location> <this>`, on a table that delta-rs cannot alter."""


def schema_version(table: DeltaTable) -> int:
    """The version of our contract that a table was brought to; 0 where it never was."""
    return int(table.metadata().configuration.get(SCHEMA_VERSION_PROPERTY) or 0)


def check_known(table: DeltaTable, contract: TableContract, *, where: str) -> None:
    """Raise `TableNewerError` for a table of a version that only a later release knows.

    And `TableReplacedError` for one that is no table of this kind. Nothing is written before.
    """
    version = schema_version(table)
    if version > contract.version:
        raise TableNewerError(
            f"its {contract.kind} schema has version {version}, and this release knows"
            f" {contract.version}",
            where=where,
            hint="Install the release that wrote it, or a newer one.",
        )
    steps = MIGRATIONS[contract.kind][version:]
    there = {column.name: column.type for column in columns_of(table)} if steps else {}
    for column, is_required in ((c, c in s.required) for s in steps for c in s.columns):
        found = there.get(column.name)
        if found != column.type and (found is not None or is_required):
            raise TableReplacedError(
                f"it is no {contract.kind} table of ours: the column {column.name} is"
                f" {found or 'missing'} instead of {column.type}",
                where=where,
                hint="Move it away, or let `lake` name another place.",
            )


def migrated(
    table: DeltaTable,
    uri: str,
    contract: TableContract,
    options: StorageOptions,
    by_spark: AlterBySpark | None,
) -> DeltaTable:
    """The table at the contract's version.

    Raises as `check_known` does, and `UnsupportedColumnError` where only Spark could alter it and
    none is given; then nothing is changed.
    """

    def attempt() -> DeltaTable:
        fresh = DeltaTable(uri, storage_options=dict(options))
        check_known(fresh, contract, where=uri)
        steps = list(enumerate(MIGRATIONS[contract.kind], start=1))
        for version, step in steps[schema_version(fresh) :]:
            _take(fresh, uri, step, by_spark)
            faults.reach(FaultPoint.TABLE_MIGRATED)
            _stamp(fresh, uri, version, by_spark)
        return fresh

    if schema_version(table) >= contract.version:
        return table
    return retry_conflicts(attempt, where=uri)


def with_columns(
    table: DeltaTable, uri: str, columns: tuple[Column, ...], by_spark: AlterBySpark | None
) -> DeltaTable:
    """The table with all of these columns; those that it lacks are NULL in what is there.

    Raises as `migrated` does.
    """

    def attempt() -> DeltaTable:
        table.update_incremental()
        _take(table, uri, Migration("columns that the source has gained", columns), by_spark)
        return table

    names = {column.name for column in columns_of(table)}
    if all(column.name in names for column in columns):
        return table
    return retry_conflicts(attempt, where=uri)


def with_property(
    table: DeltaTable, uri: str, wanted: tuple[str, str], by_spark: AlterBySpark | None
) -> DeltaTable:
    """The table with a property at a value; raises as `migrated` does."""

    def attempt() -> DeltaTable:
        table.update_incremental()
        _set(table, uri, wanted, by_spark)
        return table

    if table.metadata().configuration.get(wanted[0]) == wanted[1]:
        return table
    return retry_conflicts(attempt, where=uri)


def _take(table: DeltaTable, uri: str, step: Migration, by_spark: AlterBySpark | None) -> None:
    there = {column.name for column in columns_of(table)}
    missing = tuple(column for column in step.added if column.name not in there)
    if missing:
        fields = delta_schema(missing).fields
        _alter(
            table,
            lambda: table.alter.add_columns(fields, commit_properties=_once()),
            (uri, _add_text(missing), by_spark),
        )


def _stamp(table: DeltaTable, uri: str, version: int, by_spark: AlterBySpark | None) -> None:
    _set(table, uri, (SCHEMA_VERSION_PROPERTY, str(version)), by_spark)


def _set(
    table: DeltaTable, uri: str, wanted: tuple[str, str], by_spark: AlterBySpark | None
) -> None:
    name, value = wanted
    _alter(
        table,
        lambda: table.alter.set_table_properties(
            {name: value}, raise_if_not_exists=False, commit_properties=_once()
        ),
        (uri, f"SET TBLPROPERTIES ('{name}' = '{value}')", by_spark),
    )


def _alter(
    table: DeltaTable,
    by_delta_rs: Callable[[], None],
    otherwise: tuple[str, str, AlterBySpark | None],
) -> None:
    """Alter a table with delta-rs; what that refuses, for a feature of the table, with Spark."""
    try:
        by_delta_rs()
    except DeltaError as error:
        if not any(word in str(error).lower() for word in ("unsupported", "not supported")):
            raise
        uri, text, by_spark = otherwise
        if by_spark is None:
            raise UnsupportedColumnError(
                f"only Spark can bring it to the version that this release knows: {error}",
                where=uri,
                hint=f"Run in Spark SQL: ALTER TABLE {_path(uri)} {text}",
            ) from None
        by_spark(uri, text)
        table.update_incremental()


def _once() -> CommitProperties:
    """A conflict must come back to us: another opener may have done the same."""
    return CommitProperties(max_commit_retries=0)


def _add_text(columns: tuple[Column, ...]) -> str:
    texts = (f"{quoted(c.name)} {c.type} COMMENT {_literal(c.comment)}" for c in columns)
    return f"ADD COLUMNS ({', '.join(texts)})"


def _literal(text: str) -> str:
    """A text literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _path(uri: str) -> str:
    return f"delta.{quoted(uri)}"
