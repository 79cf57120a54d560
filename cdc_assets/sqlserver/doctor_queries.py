"""T-SQL that only `cdc-assets doctor` and `discover` send; the reader's grants are enough for all.

What needs more is asked for all the same where a server may answer: without the right to it, the
answer is an error that means "not visible".
"""

from __future__ import annotations

SERVER = (
    "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) AS version,"
    " CAST(SERVERPROPERTY('Edition') AS nvarchar(128)) AS edition,"
    " DB_NAME() AS database_name, USER_NAME() AS user_name,"
    " IS_SRVROLEMEMBER(N'sysadmin') AS is_sysadmin, IS_ROLEMEMBER(N'db_owner') AS is_owner"
)

DATABASE = (
    "SELECT is_cdc_enabled, snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()"
)

PROBE_TIMES = "SELECT TOP (0) start_lsn FROM cdc.lsn_time_mapping"

# For members of db_owner alone. An EXEC cannot be filtered, so its rows go through a variable.
JOBS = (
    "SET NOCOUNT ON; DECLARE @j TABLE (job_id uniqueidentifier NULL, job_type nvarchar(20) NULL,"
    " job_name sysname NULL, maxtrans int NULL, maxscans int NULL, continuous bit NULL,"
    " pollinginterval bigint NULL, retention bigint NULL, threshold bigint NULL);"
    " INSERT INTO @j EXEC sys.sp_cdc_help_jobs;"
    " SELECT job_type, retention FROM @j"
)

LARGEST_VALUE = (
    "SELECT CAST(value_in_use AS bigint) AS bytes FROM sys.configurations"
    " WHERE name = N'max text repl size (B)'"
)

PARTITIONS = (
    "SELECT COUNT(*) AS partitions FROM sys.partitions"
    " WHERE object_id = CAST(? AS int) AND index_id IN (0, 1)"
)
