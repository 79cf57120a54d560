"""Where to cut a ranking that memory does not hold, as a sample of its keys says."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.lake.tables import query_batches
from cdc_assets.planning.bounds import KEY_SAMPLE_ROWS, KeyRange, cut, is_bounded
from cdc_assets.planning.literals import lsn_literal, quoted
from cdc_assets.planning.plans import ApplyPlan

_COMMIT = Column("_start_lsn", "STRING")


def key_ranges(plan: ApplyPlan, bronze: DeltaTable) -> tuple[KeyRange, ...]:
    """Ranges of one key column with about `plan.limit.rows_max` rows each, or none.

    There are none where that many are not ranked, nor where no key column can be cut: then all are
    ranked at once. Of several the leading one is taken, unless another one cuts better; a key
    that is not bronze's, as a history's begin of a state, cuts nothing.
    """
    limit, there = plan.limit, {field.name for field in bronze.schema().fields}
    keys = [key for key in plan.keys if key in there]
    columns = [c for key in keys for c in plan.columns if c.name == key and is_bounded(c)]
    if limit is None:
        return ()
    above = f"`_start_lsn` > {lsn_literal(limit.above)}"
    return ranges_of(bronze, columns, limit.rows_max, above)


def ranges_of(
    table: DeltaTable, columns: Sequence[Column], rows_max: int, where: str = "true"
) -> tuple[KeyRange, ...]:
    """Ranges of one of these columns with about `rows_max` of a table's rows each, or none.

    It reads the columns once, a batch at a time. Without columns nothing is read.
    """
    if not columns:
        return ()
    names = ", ".join(quoted(column.name) for column in columns)
    sample = _Sample()
    for batch in query_batches(f"SELECT {names} FROM `bronze` WHERE {where}", bronze=table):
        sample.add(batch)
    count = -(-sample.rows // rows_max)
    if count <= 1:
        return ()
    found = [cut(column, sample.values(at), count) for at, column in enumerate(columns)]
    return max(found, key=len)


def commit_ranges(bronze: DeltaTable, rows: str, rows_max: int) -> tuple[KeyRange, ...]:
    """Ranges of commits with about `rows_max` of bronze's rows that satisfy `rows` in each.

    At least one; a commit of more rows is in one of its own, whole.
    """
    sample = _Sample()
    for batch in query_batches(f"SELECT `_start_lsn` FROM `bronze` WHERE {rows}", bronze=bronze):
        sample.add(batch)
    return cut(_COMMIT, sample.values(0), -(-sample.rows // rows_max))


class _Sample:
    """Every n-th row of those that pass; n grows with them, so that the sample does not."""

    def __init__(self) -> None:
        self.rows = 0
        self._step = 1
        self._kept: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some of a batch."""
        first = -self.rows % self._step
        self.rows += batch.num_rows
        self._keep(batch, first, self._step)
        if sum(kept.num_rows for kept in self._kept) > 2 * KEY_SAMPLE_ROWS:
            kept, self._kept = pa.Table.from_batches(self._kept).combine_chunks().to_batches(), []
            self._step *= 2
            for one in kept:
                self._keep(one, 0, 2)

    def values(self, column: int) -> list[object]:
        """What was kept of a column, without NULLs."""
        return [v for kept in self._kept for v in kept.column(column).to_pylist() if v is not None]

    def _keep(self, batch: pa.RecordBatch, first: int, step: int) -> None:
        if first < batch.num_rows:
            self._kept.append(batch.take(pa.array(range(first, batch.num_rows, step), pa.int64())))
