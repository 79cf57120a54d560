"""A table's columns and where each comes from, under Dagster's standard keys."""

from collections.abc import Mapping, Sequence

import dagster as dg

from cdc_assets.contract import BRONZE, DELETED_AT, Column
from cdc_assets.names import folded
from cdc_assets.orchestration.metadata import Metadata
from cdc_assets.orchestration.translator import BRONZE as BRONZE_LAYER
from cdc_assets.orchestration.translator import SOURCE, Translator

COMMIT_TS = "_commit_ts"
KEY = "key"
"""The constraint of a column of silver's key."""


def bronze_columns_metadata(
    translator: Translator, table: str, columns: Sequence[Column]
) -> Metadata:
    """Bronze's: captured columns come from the source's, ours from none."""
    if not columns:
        return {}
    source = translator.asset_key(SOURCE, table)
    captured = {name: name for name in _names(columns) if name not in BRONZE.names}
    renamed = translator.settings.tables[table].rename
    by_name = {folded(name): of for of, name in renamed.items()}
    origins = {name: by_name.get(folded(name), name) for name in captured}
    return _metadata(columns, source, origins)


def silver_columns_metadata(
    translator: Translator, table: str, columns: Sequence[Column], keys: Sequence[str]
) -> Metadata:
    """Silver's: each comes from bronze's of its name; when a row was deleted is a commit's time."""
    if not columns:
        return {}
    bronze = translator.asset_key(BRONZE_LAYER, table)
    origins = {name: name for name in _names(columns)}
    if DELETED_AT.name in origins:
        origins[DELETED_AT.name] = COMMIT_TS
    return _metadata(columns, bronze, origins, {folded(key) for key in keys})


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _metadata(
    columns: Sequence[Column],
    source: dg.AssetKey,
    origins: Mapping[str, str],
    keys: frozenset[str] | set[str] = frozenset(),
) -> Metadata:
    schema = dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type.lower(),
                description=column.comment or None,
                constraints=dg.TableColumnConstraints(other=[KEY])
                if folded(column.name) in keys
                else None,
            )
            for column in columns
        ]
    )
    lineage = dg.TableColumnLineage(
        {
            name: [dg.TableColumnDep(asset_key=source, column_name=of)]
            for name, of in origins.items()
        }
    )
    return {
        "dagster/column_schema": dg.MetadataValue.table_schema(schema),
        "dagster/column_lineage": dg.MetadataValue.column_lineage(lineage),
    }
