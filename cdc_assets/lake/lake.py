"""One database's corner of the lake: its bookkeeping tables, and its bronze and silver."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deltalake import DeltaTable, Transaction

from cdc_assets import faults
from cdc_assets.contract import (
    BRONZE,
    CHANGE_FEED_PROPERTY,
    HISTORY,
    SILVER,
    Column,
    TableContract,
)
from cdc_assets.errors import CommitConflictError, TableFeatureError
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.control import Control
from cdc_assets.lake.facts import Facts
from cdc_assets.lake.features import beyond_writing
from cdc_assets.lake.migrating import AlterBySpark, with_columns, with_property
from cdc_assets.lake.opening import create_table, ensure_table, open_table
from cdc_assets.lake.plans import Plans
from cdc_assets.lake.tables import StorageOptions, table_id
from cdc_assets.names import DatabaseName, TableName
from cdc_assets.settings.upkeep import SILVER_FILE_MB

TARGET_FILE_SIZE = "delta.targetFileSize"
"""Table property: bytes that a writer makes its files of, about."""

RENEWALS_MAX = 5
"""Tries to empty a table that was given up, while others commit to it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A table that applies make, silver or a history: where, with which columns and properties.

    `name` is what control calls it and `app_id` the transaction id of its MERGEs. `added` are the
    columns that one which is there already gets at once; its MERGE adds others by itself.
    """

    name: str
    uri: str
    contract: TableContract
    app_id: str
    columns: tuple[Column, ...]
    added: tuple[Column, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def silver(cls, table: TableName, columns: tuple[Column, ...]) -> Made:
        """A table's silver."""
        return cls(table.silver, table.silver_uri, SILVER, table.apply_app, columns)

    @classmethod
    def history(cls, table: TableName, columns: tuple[Column, ...]) -> Made:
        """A table's history."""
        uri = table.history_uri
        return cls(table.history, uri, HISTORY, table.history_app, columns, added=columns)


class Lake:
    """The Delta client of one database.

    `by_spark` alters bronze and silver tables that delta-rs cannot; `silver_file_mb` is the size of
    the files of a silver that is made here.
    """

    def __init__(
        self,
        name: DatabaseName,
        options: StorageOptions,
        by_spark: AlterBySpark | None = None,
        silver_file_mb: int = SILVER_FILE_MB,
    ) -> None:
        self.options = options
        # A MERGE of delta-rs goes by the table's property; Spark takes no notice.
        self._of_silver = {TARGET_FILE_SIZE: str(silver_file_mb << 20)}
        self._by_spark = by_spark
        self.facts = Facts(name.facts_uri, options)
        self.control = Control(name.control_uri, options)
        self.plans = Plans(name.plans_uri, options)

    def bronze(self, table: TableName) -> DeltaTable | None:
        """A table's bronze, or None."""
        return open_table(table.bronze_uri, BRONZE, self.options, self._by_spark)

    def ensure_bronze(self, table: TableName, columns: tuple[Column, ...]) -> DeltaTable:
        """A table's bronze, created with these columns where it is missing."""
        return ensure_table(table.bronze_uri, BRONZE, self.options, columns, self._by_spark)

    def renew_bronze(
        self, table: TableName, columns: tuple[Column, ...], discarded: Collection[str]
    ) -> DeltaTable:
        """A table's bronze; one with a discarded id is emptied under a new one, in one commit.

        Its transactions stay, so batch ids go on where they were. Raises `TableFeatureError` for
        one that delta-rs cannot empty, and `CommitConflictError` where others commit to it each
        time.
        """
        bronze = self.ensure_bronze(table, columns)
        for _ in range(RENEWALS_MAX):
            if table_id(bronze) not in discarded:
                return bronze
            _check_emptied(bronze, table)
            bronze = create_table(table.bronze_uri, BRONZE, self.options, columns, mode="overwrite")
        if table_id(bronze) not in discarded:
            return bronze
        raise CommitConflictError(
            f"a reset gave its bronze up, and others commit to it: {RENEWALS_MAX} tries to empty"
            " it came too late",
            where=str(table),
            hint="Run it again; if it stays, see which other job writes the table.",
        )

    def silver(self, table: TableName) -> DeltaTable | None:
        """A table's silver, or None."""
        return open_table(table.silver_uri, SILVER, self.options, self._by_spark)

    def history(self, table: TableName) -> DeltaTable | None:
        """A table's history, or None."""
        return open_table(table.history_uri, HISTORY, self.options, self._by_spark)

    def ensure(self, made: Made, there: DeltaTable | None = None) -> DeltaTable:
        """A silver or a history, created where it is missing, else given what it lacks of this.

        `there` is the table where the caller has it open.
        """
        properties = self._properties(made)
        table = there or ensure_table(
            made.uri, made.contract, self.options, made.columns, self._by_spark, properties
        )
        table = with_columns(table, made.uri, made.added, self._by_spark)
        faults.reach(FaultPoint.TABLE_ALTERED)
        if CHANGE_FEED_PROPERTY in made.properties:
            feed = CHANGE_FEED_PROPERTY, made.properties[CHANGE_FEED_PROPERTY]
            table = with_property(table, made.uri, feed, self._by_spark)
        return table

    def renew(self, made: Made, version: int) -> DeltaTable:
        """A silver or a history, empty under another id, as version `version` of its applies.

        So an apply that began before is overtaken. Raises `TableFeatureError` for one that
        delta-rs cannot empty.
        """
        old = open_table(made.uri, made.contract, self.options, self._by_spark)
        if old is not None:
            _check_emptied(old, made.name)
        return create_table(
            made.uri,
            made.contract,
            self.options,
            made.columns,
            mode="overwrite",
            transaction=Transaction(made.app_id, version),
            properties=self._properties(made),
        )

    def _properties(self, made: Made) -> Mapping[str, str]:
        own = self._of_silver if made.contract is SILVER else {}
        return {**own, **made.properties}


def _check_emptied(given_up: DeltaTable, table: TableName | str) -> None:
    """Raise `TableFeatureError` where delta-rs cannot empty what is given up."""
    if beyond := beyond_writing(given_up):
        raise TableFeatureError(
            f"{given_up.table_uri} has to begin anew, and delta-rs cannot {beyond}, not even"
            " to empty it",
            where=str(table),
            hint="Remove that folder, and run again.",
        )
