"""T-SQL over one change table: counts, tiles, the n-th commit, and the rows themselves.

The key is what the server's clustered index has: `(__$start_lsn, __$command_id, __$seqval,
__$operation)`. Tables made before `__$command_id` came (some builds of 2016) lack that column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.lsn import Lsn
from cdc_assets.planning.ranges import Seek
from cdc_assets.sqlserver.queries import Names, change_table, quoted, selected

_LSN, _COMMAND, _SEQVAL = "__$start_lsn", "__$command_id", "__$seqval"

CHANGE_NAMES = ("_start_lsn", "_seqval", "_operation", "_command_id", "_commit_ts")
"""What `read_changes` gives before the captured columns."""

_IN_RANGE = f"[{_LSN}] >= CONVERT(binary(10), ?, 1) AND [{_LSN}] <= CONVERT(binary(10), ?, 1)"


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """The change table of a capture instance, and whether it has `__$command_id`."""

    instance: str
    has_command_id: bool = True

    @property
    def name(self) -> str:
        """Its name, quoted."""
        return change_table(self.instance)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that say when a change happened, up to the two images of an update."""
        return (_LSN, _COMMAND, _SEQVAL) if self.has_command_id else (_LSN, _SEQVAL)


def closed_range(first: Lsn, last: Lsn) -> tuple[str, str]:
    """The parameters of a closed range; raises ValueError for an empty one."""
    if first > last:
        raise ValueError(f"an empty range must never be read: {first} > {last}")
    return str(first), str(last)


def count_changes(instance: str) -> str:
    """Rows, first and last commit of a closed range, per operation, with their local times."""
    return (
        "SELECT x.operation, x.row_count, CONVERT(varchar(22), x.min_lsn, 1) AS min_lsn,"
        " CONVERT(varchar(22), x.max_lsn, 1) AS max_lsn,"
        " CAST(a.tran_end_time AS datetime2(3)) AS min_commit_ts,"
        " CAST(b.tran_end_time AS datetime2(3)) AS max_commit_ts"
        " FROM (SELECT [__$operation] AS operation, COUNT_BIG(*) AS row_count,"
        " MIN([__$start_lsn]) AS min_lsn, MAX([__$start_lsn]) AS max_lsn"
        f" FROM {change_table(instance)} WHERE {_IN_RANGE} GROUP BY [__$operation]) AS x"
        " LEFT JOIN cdc.lsn_time_mapping AS a ON a.start_lsn = x.min_lsn"
        " LEFT JOIN cdc.lsn_time_mapping AS b ON b.start_lsn = x.max_lsn"
    )


def nth_commit(instances: Sequence[str], number: int) -> str:
    """The `number`-th commit with rows, and the next one if any; two parameters an instance.

    The instances hold different commits: each is asked for a closed range of its own.
    """
    commits = " UNION ALL ".join(
        f"SELECT DISTINCT [{_LSN}] AS [lsn] FROM {change_table(instance)} WHERE {_IN_RANGE}"
        for instance in instances
    )
    return (
        f"SELECT CONVERT(varchar(22), x.[lsn], 1) AS lsn FROM ({commits}) AS x"
        f" ORDER BY x.[lsn] OFFSET {int(number) - 1} ROWS FETCH NEXT 2 ROWS ONLY"
    )


def tile_changes(table: ChangeTable, seek: Seek, tiles: int) -> str:
    """A seek's rows in about `tiles` tiles of the first column that it leaves open, in order.

    Each value is whole, in the tile that its first row falls into; one with more rows than a tile
    is a tile of its own, and so is NULL. The parameters are `parameters([seek])`.
    """
    name = table.key[len(seek.fixed)]
    column = quoted(name)
    rows_max = -(-seek.rows // int(tiles))
    first, last = (_as_text(name, f"{end}(y.[value])") for end in ("MIN", "MAX"))
    return (
        f"SELECT {first} AS first_value, {last} AS last_value, SUM(y.[rows]) AS row_count"
        " FROM (SELECT x.[value], COUNT_BIG(*) AS [rows],"
        " CASE WHEN x.[value] IS NULL THEN 0 ELSE MIN(x.[tile]) END AS [tile],"
        f" CASE WHEN COUNT_BIG(*) > {rows_max} THEN 1 ELSE 0 END AS [is_large]"
        f" FROM (SELECT {column} AS [value], NTILE({int(tiles)}) OVER (ORDER BY {column})"
        f" AS [tile] FROM {table.name} WHERE {_condition(table, seek)}) AS x"
        " GROUP BY x.[value]) AS y"
        " GROUP BY y.[tile], y.[is_large] ORDER BY y.[tile], y.[is_large]"
    )


def read_changes(
    table: ChangeTable, columns: Names, seeks: Sequence[Seek], *, ordered: bool = True
) -> str:
    """The change rows of some seeks in bronze's names, in the order they happened.

    The change table itself is read: Microsoft's function leaves `__$command_id` out. The
    parameters are `parameters(seeks)`.
    """
    command = f"ct.{quoted(_COMMAND)}" if table.has_command_id else "CAST(NULL AS int)"
    names = ", ".join(
        [
            f"CONVERT(varchar(22), ct.[{_LSN}], 1) AS [_start_lsn]",
            f"CONVERT(varchar(22), ct.[{_SEQVAL}], 1) AS [_seqval]",
            "ct.[__$operation] AS [_operation]",
            f"{command} AS [_command_id]",
            "CAST(m.tran_end_time AS datetime2(3)) AS [_commit_ts]",
            *selected(columns, "ct"),
        ]
    )
    order = ", ".join(f"ct.{quoted(column)}" for column in (*table.key, "__$operation"))
    return (
        f"SELECT {names} FROM {_rows(table, columns, seeks)}"
        f" INNER JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = ct.[{_LSN}]"
        + (f" WHERE {_condition(table, seeks[0], 'ct.')}" if len(seeks) == 1 else "")
        + (f" ORDER BY {order}" if ordered else "")
    )


def parameters(seeks: Sequence[Seek]) -> tuple[str, ...]:
    """The parameters of a text over these seeks, in order; NULL is written out."""
    values = (value for seek in seeks for value in _bounds(seek))
    return tuple(value for value in values if value is not None)


def _rows(table: ChangeTable, columns: Names, seeks: Sequence[Seek]) -> str:
    """The change table, or where several seeks are read the rows of each after the other.

    One condition with OR would be a scan; the server merges sorted inputs in the key's order.
    """
    if len(seeks) == 1:
        return f"{table.name} AS ct"
    sources = (*table.key, "__$operation", *(source for source, _ in columns))
    names = ", ".join(map(quoted, sources))
    texts = (f"SELECT {names} FROM {table.name} WHERE {_condition(table, seek)}" for seek in seeks)
    return f"({' UNION ALL '.join(texts)}) AS ct"


def _condition(table: ChangeTable, seek: Seek, of: str = "") -> str:
    """What a seek finds: equalities on the key's first columns and a range on the next one."""
    terms = [
        f"{of}{quoted(name)} IS NULL" if value is None else f"{of}{quoted(name)} = {_bound(name)}"
        for name, value in zip(table.key, seek.fixed, strict=False)
    ]
    if len(seek.fixed) == len(seek.same):
        if seek.first is None or seek.last is None:
            raise ValueError(f"NULL is a range of its own: {seek}")
        name = table.key[len(seek.same)]
        terms += [f"{of}{quoted(name)} {compared} {_bound(name)}" for compared in (">=", "<=")]
    return " AND ".join(terms)


def _bounds(seek: Seek) -> tuple[str | None, ...]:
    """The values that `_condition` compares with, in order."""
    is_range = len(seek.fixed) == len(seek.same)
    return (*seek.fixed, seek.first, seek.last) if is_range else seek.fixed


def _bound(column: str) -> str:
    """A parameter, in a key column's type: a bare one is text and would convert the column."""
    return "CAST(? AS int)" if column == _COMMAND else "CONVERT(binary(10), ?, 1)"


def _as_text(column: str, value: str) -> str:
    if column == _COMMAND:
        return f"CAST({value} AS varchar(11))"
    return f"CONVERT(varchar(22), {value}, 1)"
