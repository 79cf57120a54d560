"""What delta-rs cannot alter, Spark migrates: tables that map their columns, or widened types."""

import functools
from pathlib import Path

from deltalake import DeltaTable

from cdc_assets.contract import BRONZE, SILVER
from cdc_assets.engines.spark.engine import alter_table
from cdc_assets.engines.spark.session import new_session
from cdc_assets.lake.migrating import schema_version
from cdc_assets.lake.opening import open_table
from cdc_assets.lake.tables import MAPPING_MODE, columns_of
from cdc_assets_tests.engines.spark.helpers import LiteralEngine
from cdc_assets_tests.lake import older


def test_a_table_that_maps_columns(engine: LiteralEngine, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    columns = older.tables({"Unit Price": "integer"})["bronze"]
    older.write(uri, columns, [{"Unit Price": 1}], properties={MAPPING_MODE: "name"})
    table = open_table(uri, BRONZE, {}, functools.partial(alter_table, engine._config))
    assert table is not None
    assert schema_version(table) == BRONZE.version
    comments = {column.name: column.comment for column in columns_of(table)}
    added = {c.name: c.comment for c in BRONZE.columns if c.name in ("_snapshot", "_chunk")}
    assert added.items() <= comments.items()
    (row,) = new_session(engine._config).read.format("delta").load(uri).collect()
    assert (row["Unit Price"], row["_snapshot"]) == (1, None)


def test_a_table_with_a_widened_type(engine: LiteralEngine, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    older.write(uri, older.tables({"id": "integer"})["silver"], [{"id": 1}])
    spark = new_session(engine._config)
    spark.sql(f"ALTER TABLE delta.`{uri}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"ALTER TABLE delta.`{uri}` ALTER COLUMN id TYPE BIGINT")
    table = open_table(uri, SILVER, {}, functools.partial(alter_table, engine._config))
    assert table is not None
    assert schema_version(DeltaTable(uri)) == SILVER.version
