"""NOT NULL and unique keys, checked on staged rows before anything is written.

They are checked by queries and not by DuckDB's constraints: an error of DuckDB's ends the
transaction, T-SQL's only the statement; and its indexes know no collation.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.work import Work, key_items
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.types import nvarchar
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError


def check_nulls(
    work: Work,
    table: e.Table,
    shown: str,
    stage: str,
    columns: Sequence[e.Column],
    verb: str,
) -> None:
    """Raise Msg 515 where a staged row has NULL in a column that allows none."""
    strict = [c for c in columns if not c.nullable]
    if not strict:
        return
    counts = ", ".join(f"count(*) - count({c.physical})" for c in strict)
    row = work.connection.one(f"SELECT {counts} FROM {stage}") or ()
    for column, missing in zip(strict, row, strict=False):
        if missing:
            raise SqlError(
                515,
                f"Cannot insert the value NULL into column '{column.name}', table '{shown}'; "
                f"column does not allow nulls. {verb} fails.",
                16,
                2,
            )


def check_keys(work: Work, table: e.Table, stage: str, count: int, *, replaced: str | None) -> None:
    """Raise Msg 2627 or 2601 where staged rows repeat a unique key.

    `replaced` names the stage's column of row ids that the staged rows take the place of.
    """
    for key in table.keys:
        if not key.unique:
            continue
        items = key_items(table, key, "")
        named = ", ".join(f"{text} AS k{i}" for i, text in enumerate(items))
        keys = ", ".join(f"k{i}" for i in range(len(items)))
        select = f"SELECT {named} FROM {stage}"
        found = None
        if count > 1:
            found = work.connection.one(
                f"SELECT {keys} FROM ({select}) GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
            )
        if found is None:
            work.lock_keys(table, key, select, count)
            found = _present(work, table, key, stage, replaced)
        if found is not None:
            raise _duplicate(work, table, key, stage, found)
        work.took_keys(table, key, select)


def leave_keys(work: Work, table: e.Table, stage: str, count: int) -> None:
    """Rows go: whoever wants to take their keys waits until it is sure that they do."""
    for key in table.keys:
        if key.unique:
            named = ", ".join(f"{text} AS k{i}" for i, text in enumerate(key_items(table, key, "")))
            work.lock_keys(table, key, f"SELECT {named} FROM {stage}", count)


def _present(
    work: Work, table: e.Table, key: e.Key, stage: str, replaced: str | None
) -> tuple[object, ...] | None:
    """A key that a row outside the staged ones has already."""
    mine, theirs = key_items(table, key, "n."), key_items(table, key, "t.")
    nullable = [table.by_id(number).nullable for number in key.columns]
    match = " AND ".join(
        f"{a} {'IS NOT DISTINCT FROM' if loose else '='} {b}"
        for a, b, loose in zip(mine, theirs, nullable, strict=True)
    )
    others = table.physical
    extra = ""
    if replaced is not None:
        extra = f" AND t.rowid NOT IN (SELECT {replaced} FROM {stage})"
    found: tuple[object, ...] | None = work.connection.one(
        f"SELECT {', '.join(mine)} FROM {others} AS t JOIN {stage} AS n ON {match}{extra} LIMIT 1"
    )
    return found


def _duplicate(
    work: Work, table: e.Table, key: e.Key, stage: str, found: tuple[object, ...]
) -> SqlError:
    columns = [table.by_id(number) for number in key.columns]
    items = key_items(table, key, "")
    match = " AND ".join(f"{text} IS NOT DISTINCT FROM ?" for text in items)
    shown = ", ".join(
        f"coalesce({convert(Value(c.physical, c.type), nvarchar(MAX_LENGTH)).sql}, '<NULL>')"
        if c.type.name not in ("binary", "varbinary", "rowversion", "float", "real")
        else f"CAST({c.physical} AS VARCHAR)"
        for c in columns
    )
    row = work.connection.one(f"SELECT {shown} FROM {stage} WHERE {match} LIMIT 1", list(found))
    values = ", ".join(str(value).rstrip() for value in row or found)
    if key.constraint:
        kind = "PRIMARY KEY" if key.primary else "UNIQUE KEY"
        return SqlError(
            2627,
            f"Violation of {kind} constraint '{key.name}'. Cannot insert duplicate key in object "
            f"'{table.schema}.{table.name}'. The duplicate key value is ({values}).",
            14,
        )
    return SqlError(
        2601,
        f"Cannot insert duplicate key row in object '{table.schema}.{table.name}' with unique "
        f"index '{key.name}'. The duplicate key value is ({values}).",
        14,
    )
