"""T-SQL that counts an integer key's rows on a grid: to cut them into chunks."""

from __future__ import annotations

from cdc_assets.planning.chunks import Slice
from cdc_assets.sqlserver.queries import quoted, source_table


def count_slices(
    table: tuple[str, str], key: str, whole: Slice, width: int, *, is_first: bool
) -> tuple[str, tuple[str, ...]]:
    """Rows per `width` neighbouring values of an integer key, in order: `low`, `high`, `row_count`.

    The grid's lines are the multiples of `width`, so that no difference of two values is ever
    taken: it might not fit a bigint. `is_first` also counts what is below `whole`, and NULL.
    """
    k = quoted(key)
    condition = f"{k} <= CAST(? AS bigint)"
    condition = (
        f"({condition} OR {k} IS NULL)" if is_first else f"{k} >= CAST(? AS bigint) AND {condition}"
    )
    text = (
        "SELECT MIN(x.[value]) AS low, MAX(x.[value]) AS high, COUNT_BIG(*) AS row_count"
        " FROM (SELECT y.[value], y.[value] / y.[width]"
        # Division goes towards zero: what is below it belongs to the line below.
        " - CASE WHEN y.[value] % y.[width] < 0 THEN 1 ELSE 0 END AS [slice]"
        f" FROM (SELECT CAST({k} AS bigint) AS [value], CAST(? AS bigint) AS [width]"
        f" FROM {source_table(*table)} WHERE {condition}) AS y) AS x"
        " GROUP BY x.[slice] ORDER BY x.[slice]"
    )
    ends = (whole.high,) if is_first else (whole.low, whole.high)
    return text, tuple(str(value) for value in (width, *ends))
