"""Source against silver: all columns of all rows, the source read with another driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.cli.wire import wire
from cdc_assets.contract import SILVER
from cdc_assets.engines.database import Database
from cdc_assets.lake.tables import columns_of, query
from cdc_assets.sqlserver.queries import quoted, source_table

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one table's silver stands to its source."""

    table: str
    source_rows: int
    silver_rows: int
    missing: int
    surplus: int
    first_difference: str

    @property
    def identical(self) -> bool:
        """Whether both hold the same rows, as often."""
        return self.source_rows == self.silver_rows and not self.missing and not self.surplus


def compare(database: Database, table: str, schema: str, name: str, source: Path) -> Comparison:
    """Compare one table; rows are whole tuples of the captured columns."""
    silver = database.lake.silver(database.table(table))
    if silver is None:
        return Comparison(table, 0, 0, 0, 0, "there is no silver table")
    columns = [c.name for c in columns_of(silver) if c.name not in SILVER.names]
    selected = ", ".join(f"`{c}`" for c in columns)
    found = query(f"SELECT {selected} FROM silver", silver=silver)
    ours = list(zip(*(found[c].to_pylist() for c in columns), strict=True))
    with wire(source.read_text()) as cursor:
        names = ", ".join(quoted(c) for c in columns)
        cursor.execute(f"SELECT {names} FROM {source_table(schema, name)}")
        theirs = [tuple(row) for row in cursor.fetchall()]
    return _difference(table, columns, theirs, ours)


def _difference(table: str, columns: list[str], theirs: list[Row], ours: list[Row]) -> Comparison:
    source, silver = Counter(theirs), Counter(ours)
    missing, surplus = source - silver, silver - source
    first = next(iter(missing), None) or next(iter(surplus), None)
    return Comparison(
        table=table,
        source_rows=len(theirs),
        silver_rows=len(ours),
        missing=missing.total(),
        surplus=surplus.total(),
        first_difference=str(dict(zip(columns, first, strict=True))) if first else "",
    )
