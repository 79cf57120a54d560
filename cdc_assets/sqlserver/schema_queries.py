"""T-SQL about changes of the source table's schema."""

from __future__ import annotations

from cdc_assets.planning.schemas import DDL_TEXT_LENGTH_MAX

# An EXEC cannot be filtered or converted, so its rows go through a table variable.
DDL_HISTORY = (
    "SET NOCOUNT ON;"
    " DECLARE @h TABLE (source_schema sysname NULL, source_table sysname NULL,"
    " capture_instance sysname NULL, required_column_update bit NULL,"
    " ddl_command nvarchar(max) NULL, ddl_lsn binary(10) NULL, ddl_time datetime NULL);"
    " INSERT INTO @h EXEC sys.sp_cdc_get_ddl_history @capture_instance = ?;"
    " SELECT required_column_update, CONVERT(varchar(22), ddl_lsn, 1) AS ddl_lsn,"
    f" CAST(LEFT(ddl_command, {DDL_TEXT_LENGTH_MAX}) AS nvarchar({DDL_TEXT_LENGTH_MAX}))"
    " AS ddl_command, CAST(ddl_time AS datetime2(3)) AS ddl_time FROM @h"
    " WHERE ddl_lsn >= CONVERT(binary(10), ?, 1) AND ddl_lsn <= CONVERT(binary(10), ?, 1)"
    " ORDER BY ddl_lsn"
)
