"""Tables that a session's catalog names, and where they are: everything else goes by the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cdc_assets.errors import SettingsError
from cdc_assets.lake.places import no_catalog, place


class SparkCatalog:
    """Looks names up in the catalog of a session, classic or Spark Connect."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def place_of(self, name: str) -> str | None:
        """Where the table of this name is, or None where the catalog has none."""
        if not self._spark.catalog.tableExists(name):
            return None
        row = self._spark.sql(f"DESCRIBE DETAIL {name}").select("location").first()
        return None if row is None else place(str(row["location"]))

    def new_place(self, name: str) -> str:
        """Where a table of this name belongs that is not there yet: in its schema's folder.

        Raises `SettingsError` where the catalog says of none.
        """
        schema, _, table = name.rpartition(".")
        schema = schema or str(self._spark.catalog.currentDatabase())
        rows = self._spark.sql(f"DESCRIBE SCHEMA {schema}").collect()
        found = {str(row[0]).lower(): str(row[1]) for row in rows}
        if not found.get("location"):
            raise SettingsError(
                f"the catalog does not say where the tables of {schema} are",
                where=name,
                hint="Create the table first, or name its path.",
            )
        return place(f"{found['location'].rstrip('/')}/{table.strip('`').lower()}")

    def register(self, name: str, uri: str) -> None:
        """Give the table at a place its name, where the catalog has none of it."""
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {_literal(uri)}")


def catalog_of(spark: Any) -> Callable[[str], str | None]:
    """How a session's names are looked up; without a session nobody knows any."""
    return no_catalog if spark is None else SparkCatalog(spark).place_of


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
