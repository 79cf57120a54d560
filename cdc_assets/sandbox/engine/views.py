"""The catalogue views: sys.*, cdc.* and INFORMATION_SCHEMA.*."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cdc_assets.sandbox.engine import viewconstraints, viewrows
from cdc_assets.sandbox.engine.rows import Described, described
from cdc_assets.sandbox.engine.typerows import types_rows
from cdc_assets.sandbox.engine.viewrows import Row, Viewer

_OBJECT_COLUMNS = (
    "name sysname, object_id int, principal_id int, schema_id int, parent_object_id int, "
    "type char(2), type_desc nvarchar(60), create_date datetime, modify_date datetime, "
    "is_ms_shipped bit, is_published bit, is_schema_published bit"
)

_NAMED = "CONSTRAINT_CATALOG sysname, CONSTRAINT_SCHEMA sysname, CONSTRAINT_NAME sysname"
_OF_TABLE = "TABLE_CATALOG sysname, TABLE_SCHEMA sysname, TABLE_NAME sysname"


def _objects(viewer: Viewer) -> list[Row]:
    return [*viewrows.objects_rows(viewer), *viewconstraints.constraint_objects(viewer)]


_VIEWS: dict[str, tuple[str, Callable[[Viewer], list[Row]]]] = {
    "sys.objects": (
        _OBJECT_COLUMNS,
        _objects,
    ),
    "sys.all_objects": (
        _OBJECT_COLUMNS,
        _objects,
    ),
    "sys.tables": (
        _OBJECT_COLUMNS
        + ", max_column_id_used int, is_tracked_by_cdc bit, is_memory_optimized bit, "
        "temporal_type tinyint, temporal_type_desc nvarchar(60), is_external bit",
        viewrows.tables_rows,
    ),
    "sys.schemas": (
        "name sysname, schema_id int, principal_id int",
        viewrows.schemas_rows,
    ),
    "sys.columns": (
        "object_id int, name sysname, column_id int, system_type_id tinyint, user_type_id "
        "int, max_length smallint, precision tinyint, scale tinyint, collation_name sysname, "
        "is_nullable bit, is_ansi_padded bit, is_rowguidcol bit, is_identity bit, is_computed "
        "bit, is_filestream bit, is_sparse bit, default_object_id int, rule_object_id int, "
        "generated_always_type tinyint, generated_always_type_desc nvarchar(60), is_hidden "
        "bit",
        viewrows.columns_rows,
    ),
    "sys.types": (
        "name sysname, system_type_id tinyint, user_type_id int, schema_id int, principal_id "
        "int, max_length smallint, precision tinyint, scale tinyint, collation_name sysname, "
        "is_nullable bit, is_user_defined bit, is_assembly_type bit, default_object_id int, "
        "rule_object_id int, is_table_type bit",
        types_rows,
    ),
    "sys.databases": (
        "name sysname, database_id int, source_database_id int, owner_sid varbinary(85), "
        "create_date datetime, compatibility_level tinyint, collation_name sysname, "
        "user_access tinyint, user_access_desc nvarchar(60), is_read_only bit, "
        "is_auto_close_on bit, is_auto_shrink_on bit, state tinyint, state_desc nvarchar(60), "
        "is_in_standby bit, snapshot_isolation_state tinyint, snapshot_isolation_state_desc "
        "nvarchar(60), is_read_committed_snapshot_on bit, recovery_model tinyint, "
        "recovery_model_desc nvarchar(60), is_cdc_enabled bit, is_encrypted bit",
        viewrows.databases_rows,
    ),
    "sys.indexes": (
        "object_id int, name sysname, index_id int, type tinyint, type_desc nvarchar(60), "
        "is_unique bit, data_space_id int, ignore_dup_key bit, is_primary_key bit, "
        "is_unique_constraint bit, fill_factor tinyint, is_padded bit, is_disabled bit, "
        "is_hypothetical bit, has_filter bit, filter_definition nvarchar(max)",
        viewrows.indexes_rows,
    ),
    "sys.index_columns": (
        "object_id int, index_id int, index_column_id int, column_id int, key_ordinal "
        "tinyint, partition_ordinal tinyint, is_descending_key bit, is_included_column bit",
        viewrows.index_columns_rows,
    ),
    "sys.identity_columns": (
        "object_id int, name sysname, column_id int, seed_value bigint, increment_value bigint",
        viewrows.identity_columns_rows,
    ),
    "sys.computed_columns": (
        "object_id int, name sysname, column_id int, definition nvarchar(max), is_persisted bit",
        viewrows.computed_columns_rows,
    ),
    "cdc.change_tables": (
        "object_id int, version int, source_object_id int, capture_instance sysname, "
        "supports_net_changes bit, role_name sysname, index_name sysname, filegroup_name "
        "sysname, create_date datetime, partition_switch bit",
        viewrows.change_tables_rows,
    ),
    "cdc.captured_columns": (
        "object_id int, column_name sysname, column_id int, column_type sysname, "
        "column_ordinal int, is_computed bit",
        viewrows.captured_columns_rows,
    ),
    "sys.views": (
        _OBJECT_COLUMNS,
        viewconstraints.views_rows,
    ),
    "sys.sql_modules": (
        "object_id int, definition nvarchar(max), uses_ansi_nulls bit, "
        "uses_quoted_identifier bit, is_schema_bound bit",
        viewconstraints.sql_modules_rows,
    ),
    "sys.check_constraints": (
        _OBJECT_COLUMNS + ", is_disabled bit, is_not_for_replication bit, is_not_trusted bit, "
        "parent_column_id int, definition nvarchar(max), uses_database_collation bit, "
        "is_system_named bit",
        viewconstraints.check_constraints_rows,
    ),
    "sys.foreign_keys": (
        _OBJECT_COLUMNS + ", referenced_object_id int, key_index_id int, is_disabled bit, "
        "is_not_for_replication bit, is_not_trusted bit, delete_referential_action tinyint, "
        "delete_referential_action_desc nvarchar(60), update_referential_action tinyint, "
        "update_referential_action_desc nvarchar(60), is_system_named bit",
        viewconstraints.foreign_keys_rows,
    ),
    "sys.foreign_key_columns": (
        "constraint_object_id int, constraint_column_id int, parent_object_id int, "
        "parent_column_id int, referenced_object_id int, referenced_column_id int",
        viewconstraints.foreign_key_columns_rows,
    ),
    "sys.key_constraints": (
        _OBJECT_COLUMNS + ", unique_index_id int, is_system_named bit",
        viewconstraints.key_constraints_rows,
    ),
    "information_schema.table_constraints": (
        f"{_NAMED}, {_OF_TABLE}, CONSTRAINT_TYPE varchar(11), IS_DEFERRABLE varchar(2), "
        "INITIALLY_DEFERRED varchar(2)",
        viewconstraints.information_constraints_rows,
    ),
    "information_schema.key_column_usage": (
        f"{_NAMED}, {_OF_TABLE}, COLUMN_NAME sysname, ORDINAL_POSITION int",
        viewconstraints.information_key_columns_rows,
    ),
    "information_schema.referential_constraints": (
        f"{_NAMED}, UNIQUE_CONSTRAINT_CATALOG sysname, UNIQUE_CONSTRAINT_SCHEMA sysname, "
        "UNIQUE_CONSTRAINT_NAME sysname, MATCH_OPTION varchar(7), UPDATE_RULE varchar(11), "
        "DELETE_RULE varchar(11)",
        viewconstraints.information_references_rows,
    ),
    "information_schema.check_constraints": (
        f"{_NAMED}, CHECK_CLAUSE nvarchar(4000)",
        viewconstraints.information_checks_rows,
    ),
    "information_schema.views": (
        f"{_OF_TABLE}, VIEW_DEFINITION nvarchar(4000), CHECK_OPTION varchar(7), "
        "IS_UPDATABLE varchar(2)",
        viewconstraints.information_views_rows,
    ),
    "information_schema.schemata": (
        "CATALOG_NAME sysname, SCHEMA_NAME sysname, SCHEMA_OWNER nvarchar(128), "
        "DEFAULT_CHARACTER_SET_CATALOG varchar(6), DEFAULT_CHARACTER_SET_SCHEMA varchar(3), "
        "DEFAULT_CHARACTER_SET_NAME sysname",
        viewconstraints.information_schemata_rows,
    ),
    "information_schema.tables": (
        "TABLE_CATALOG sysname, TABLE_SCHEMA sysname, TABLE_NAME sysname, TABLE_TYPE varchar(10)",
        viewrows.information_tables_rows,
    ),
    "information_schema.columns": (
        "TABLE_CATALOG sysname, TABLE_SCHEMA sysname, TABLE_NAME sysname, COLUMN_NAME "
        "sysname, ORDINAL_POSITION int, COLUMN_DEFAULT nvarchar(4000), IS_NULLABLE "
        "varchar(3), DATA_TYPE sysname, CHARACTER_MAXIMUM_LENGTH int, NUMERIC_PRECISION "
        "tinyint, NUMERIC_SCALE int, DATETIME_PRECISION smallint, COLLATION_NAME sysname",
        viewrows.information_columns_rows,
    ),
}


def find(schema: str, name: str) -> tuple[Described, Callable[[Viewer], list[Row]]] | None:
    """A view's columns and the function that gives its rows."""
    found = _VIEWS.get(f"{schema.lower()}.{name.lower()}")
    return (described(found[0]), found[1]) if found else None


def listed() -> Iterator[tuple[str, str, Described]]:
    """All views: schema, name, columns."""
    shown = {"information_schema": str.upper}
    for key, (columns, _) in _VIEWS.items():
        schema, name = (shown.get(key.partition(".")[0], str)(part) for part in key.split("."))
        yield schema, name, described(columns)
