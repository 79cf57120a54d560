"""Every T-SQL text we send, as constants and pure builders.

LSNs cross as text (style 1), names are quoted by `quoted` alone, values are parameters. Nothing
else is ever put into a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from cdc_assets.names import NAME_LENGTH_MAX

T = TypeVar("T")

MAX_LSN = "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS max_lsn"

ALIVE = "SELECT 1 AS alive"

GUARD = (
    "SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn(?), 1) AS min_lsn,"
    " OBJECT_ID(?) AS object_id"
)

# An EXEC cannot be joined or converted, so its rows go through a table variable.
CAPTURE_INSTANCES = (
    "SET NOCOUNT ON;"
    " DECLARE @i TABLE (source_schema sysname NULL, source_table sysname NULL,"
    " capture_instance sysname NULL, object_id int NULL, source_object_id int NULL,"
    " start_lsn binary(10) NULL, end_lsn binary(10) NULL, supports_net_changes bit NULL,"
    " has_drop_pending bit NULL, role_name sysname NULL, index_name sysname NULL,"
    " filegroup_name sysname NULL, create_date datetime NULL,"
    " index_column_list nvarchar(max) NULL, captured_column_list nvarchar(max) NULL);"
    " INSERT INTO @i EXEC sys.sp_cdc_help_change_data_capture;"
    " SELECT source_schema, source_table, capture_instance, object_id, source_object_id,"
    " CONVERT(varchar(22), start_lsn, 1) AS start_lsn, create_date, index_column_list FROM @i"
)

CAPTURED_COLUMNS = "EXEC sys.sp_cdc_get_captured_columns @capture_instance = ?"

_COLUMNS = (
    "SELECT c.name, c.column_id, c.collation_name, c.is_computed,"
    # The built-in type below an alias type; NULL for CLR types, which share one id.
    " TYPE_NAME(c.system_type_id) AS base_type, c.max_length, c.precision, c.scale, c.object_id"
    " FROM sys.columns AS c"
)

TABLE_COLUMNS = f"{_COLUMNS} WHERE c.object_id = CAST(? AS int)"

COLUMNS_OF_TWO_TABLES = f"{_COLUMNS} WHERE c.object_id IN (CAST(? AS int), CAST(? AS int))"

UNIQUE_INDEXES = (
    "SELECT i.index_id, c.name"
    " FROM sys.indexes AS i"
    " JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
    " JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id"
    # A filtered one leaves rows out: often those with NULL.
    " WHERE i.object_id = CAST(? AS int) AND i.is_unique = 1 AND i.is_disabled = 0"
    " AND i.has_filter = 0 AND ic.is_included_column = 0"
)

Names = Sequence[tuple[str, str]]
"""Columns by their name at the source and their name in the lake."""

PARAMETERS_MAX = 2_000
"""Parameters of one statement; SQL Server takes 2,100, and some of them are its own."""

INSTANCES_PER_POLL_MAX = 500
"""Instances or LSNs named in one statement; each takes three parameters at most."""


def per_statement(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, as many at a time as one statement may name."""
    step = INSTANCES_PER_POLL_MAX
    return (items[i : i + step] for i in range(0, len(items), step))


def quoted(name: str) -> str:
    """An identifier in brackets; raises ValueError for what SQL Server cannot have as a name."""
    if not name or len(name.encode("utf-16-le")) > 2 * NAME_LENGTH_MAX or "\0" in name:
        raise ValueError(f"not a SQL Server identifier: {name!r}")
    return "[" + name.replace("]", "]]") + "]"


def selected(names: Names, table: str = "") -> list[str]:
    """What a SELECT takes: each column under the name it has in the lake.

    Under a number where that is not ASCII, which the driver may not give back as it is; so the
    columns are told apart by their places.
    """
    of = f"{table}." if table else ""
    texts = []
    for place, (source, name) in enumerate(names):
        shown = _shown(place, name)
        texts.append(of + quoted(source) + ("" if source == shown else f" AS {quoted(shown)}"))
    return texts


def _shown(place: int, name: str) -> str:
    return name if name.isascii() else f"c{place}"


def largest_values(text: str, names: Names, units: Mapping[str, int], before: int = 0) -> str:
    """The largest value of some columns that a SELECT (without an order) gives; "" for none.

    `units` are the columns, by name in the lake, and the bytes of a character of theirs. A
    column of the answer is called by its place in the SELECT, of which `before` come first.
    """
    parts = [
        f"MAX(DATALENGTH(x.{quoted(_shown(place, name))}) / {units[name]}) AS [c{before + place}]"
        for place, (_, name) in enumerate(names)
        if name in units
    ]
    return f"SELECT {', '.join(parts)} FROM ({text}) AS x" if parts else ""


def change_table(instance: str) -> str:
    """The change table of a capture instance."""
    return f"cdc.{quoted(instance + '_CT')}"


def probe_changes(instance: str) -> str:
    """Reads nothing, and fails where the change table is not there or may not be read."""
    return f"SELECT TOP (0) [__$start_lsn] FROM {change_table(instance)}"


def source_table(schema: str, table: str) -> str:
    """A source table."""
    return f"{quoted(schema)}.{quoted(table)}"


def has_changes(instances: Sequence[str]) -> str:
    """The places of those instances that have rows in their (after, up to].

    Two parameters an instance, in order. What is asked at every poll, of every table: one seek
    each, and nothing for a quiet one to give back.
    """
    return " UNION ALL ".join(
        f"SELECT TOP (1) {place:d} AS place FROM {change_table(instance)}"
        " WHERE [__$start_lsn] > CONVERT(binary(10), ?, 1)"
        " AND [__$start_lsn] <= CONVERT(binary(10), ?, 1)"
        for place, instance in enumerate(instances)
    )


def watermarks(count: int) -> str:
    """The low watermark of `count` instances; their names are the parameters."""
    names = ", ".join(["(CAST(? AS nvarchar(128)))"] * count)
    return (
        "SELECT i.instance, CONVERT(varchar(22), sys.fn_cdc_get_min_lsn(i.instance), 1) AS min_lsn"
        f" FROM (VALUES {names}) AS i (instance)"
    )


# Of the own session alone: up to 2019 every login may ask for that, later it needs a permission.
NETWORK_WAIT = (
    "SELECT CAST(COALESCE(SUM(wait_time_ms), 0) AS bigint) AS wait_ms"
    " FROM sys.dm_exec_session_wait_stats"
    " WHERE session_id = @@SPID AND wait_type = N'ASYNC_NETWORK_IO'"
)


def first_commits(count: int) -> str:
    """The first commit at or above each of `count` LSNs; two parameters an LSN, itself twice."""
    return " UNION ALL ".join(
        ["SELECT CAST(? AS varchar(22)) AS lsn, CAST(x.tran_end_time AS datetime2(3)) AS commit_ts"
         " FROM (SELECT TOP (1) tran_end_time FROM cdc.lsn_time_mapping"
         " WHERE start_lsn >= CONVERT(binary(10), ?, 1) ORDER BY start_lsn) AS x"] * count
    )  # fmt: skip


def are_mapped(count: int) -> str:
    """Whether the log maps each of `count` LSNs, and an older one; three parameters an LSN."""
    return " UNION ALL ".join(
        ["SELECT CAST(? AS varchar(22)) AS lsn, CASE WHEN EXISTS (SELECT 1 FROM"
         " cdc.lsn_time_mapping WHERE start_lsn = CONVERT(binary(10), ?, 1)) THEN 1 ELSE 0 END"
         " AS is_mapped, CASE WHEN EXISTS (SELECT 1 FROM cdc.lsn_time_mapping"
         " WHERE start_lsn < CONVERT(binary(10), ?, 1)) THEN 1 ELSE 0 END AS has_older"] * count
    )  # fmt: skip


def key_extent(schema: str, table: str, key: str) -> str:
    """The smallest and largest value of an integer key, as bigint."""
    k = quoted(key)
    return (
        f"SELECT CAST(MIN({k}) AS bigint) AS low, CAST(MAX({k}) AS bigint) AS high"
        f" FROM {source_table(schema, table)}"
    )


def read_table(schema: str, table: str, columns: Names, where: str = "") -> str:
    """Current rows of a source table, in bronze's names."""
    names = ", ".join(selected(columns))
    condition = f" WHERE {where}" if where else ""
    return f"SELECT {names} FROM {source_table(schema, table)}{condition}"


USER = "SELECT USER_NAME() AS name"

SPACE_USED = "EXEC sys.sp_spaceused @objname = ?"


def integer_range(key: str, sql_type: str, *, first: bool, last: bool) -> str:
    """The condition of one range of an integer key; a parameter per closed end, in order.

    The ends are open, since rows outside arrive while the ranges are read; the first also takes
    NULL keys.
    """
    if sql_type not in ("tinyint", "smallint", "int", "bigint"):
        raise ValueError(f"not an integer type: {sql_type}")
    k = quoted(key)
    # bigint, not the column's type: a bound may lie just outside a tinyint's range.
    low = f"{k} >= CAST(? AS bigint)"
    high = f"{k} < CAST(? AS bigint)"
    if first and last:
        return ""
    if first:
        return f"({high} OR {k} IS NULL)"
    return low if last else f"{low} AND {high}"
