"""What a table is called in Dagster: the one place that decides keys, groups, kinds and owners."""

from collections.abc import Iterator
from datetime import datetime, time

import dagster as dg

from cdc_assets.names import DatabaseName
from cdc_assets.settings import DatabaseSettings

SOURCE, BRONZE, SILVER, FINAL = "sqlserver", "bronze", "silver", "final"


HOUR_FORMAT = "%Y-%m-%d-%H:%M"
"""How the partitions of a final hour are called; they are Dagster's own names."""


class Translator:
    """Names and describes the assets of one database; subclass it to name them otherwise."""

    def __init__(self, key: str, settings: DatabaseSettings) -> None:
        self.database = DatabaseName(key, settings.lake)
        self.settings = settings

    def asset_key(self, layer: str, table: str) -> dg.AssetKey:
        """The asset key of a table in a layer."""
        return dg.AssetKey([self.database.key, layer, table])

    def table_of(self, key: dg.AssetKey) -> str:
        """The table that an asset key is about."""
        return key.path[-1]

    def source_spec(self, table: str) -> dg.AssetSpec:
        """The SQL Server table, as an external asset."""
        instance = self.settings.instance_of(table)
        return self._spec(
            SOURCE,
            table,
            kinds={"sqlserver"},
            description=f"SQL Server table behind the capture instance {instance}.",
            metadata={"cdc/capture_instance": instance},
        )

    def bronze_spec(self, table: str) -> dg.AssetSpec:
        """Every change of the table, append-only."""
        return self._spec(
            BRONZE,
            table,
            deps=[self.asset_key(SOURCE, table)],
            kinds={"deltalake", "bronze"},
            description="Every change, append-only, from a whole snapshot on.",
            metadata=self._storage(BRONZE, table),
            skippable=True,
        )

    def silver_spec(self, table: str) -> dg.AssetSpec:
        """The table's current state."""
        return self._spec(
            SILVER,
            table,
            deps=[self.asset_key(BRONZE, table)],
            kinds={"deltalake", "silver"},
            description="Current state, one row per key; complete up to its verdict.",
            metadata=self._storage(SILVER, table),
            skippable=True,
        )

    def final_spec(self, table: str) -> dg.AssetSpec:
        """The table's final hours: an external asset, whose partitions a sensor reports."""
        return self._spec(
            FINAL,
            table,
            deps=[self.asset_key(SILVER, table)],
            kinds={"deltalake"},
            description="Hours of the table that are complete: none exists before it is final.",
            partitions_def=dg.HourlyPartitionsDefinition(
                self.final_from(table), fmt=HOUR_FORMAT, timezone="UTC"
            ),
        )

    def hourly_tables(self) -> list[str]:
        """The tables that are judged by the hour: they have a `final` asset."""
        finality = self.settings.finality_of
        return [table for table in self.settings.tables if finality(table).granularity == "hour"]

    def final_from(self, table: str) -> datetime:
        """The first hour of the table's `final` asset."""
        return datetime.combine(self.settings.finality_of(table).final_from, time())

    def table_specs(self) -> Iterator[dg.AssetSpec]:
        """Bronze and silver of every table."""
        for table in self.settings.tables:
            yield self.bronze_spec(table)
            yield self.silver_spec(table)

    def _spec(self, layer: str, table: str, **attributes: object) -> dg.AssetSpec:
        settings = self.settings.tables[table]
        return dg.AssetSpec(
            self.asset_key(layer, table),
            group_name=f"{self.database.key}/{layer}",
            owners=[settings.owner] if settings.owner else None,
            tags=settings.tags,
            **attributes,  # type: ignore[arg-type]
        )

    def _storage(self, layer: str, table: str) -> dict[str, object]:
        name = self.database.table(table)
        return {
            "dagster/uri": name.bronze_uri if layer == BRONZE else name.silver_uri,
            "dagster/table_name": f"{self.database.key}.{layer}.{table}",
            "dagster/storage_kind": "deltalake",
        }
