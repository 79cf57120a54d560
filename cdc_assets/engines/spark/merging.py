"""The text of silver's MERGE for Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.planning.bounds import Extent
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.plans import ApplyPlan, MergeTexts


def delta_path(uri: str) -> str:
    """A table by its location, for Spark SQL."""
    return f"delta.{quoted(uri)}"


def merge_text(
    plan: ApplyPlan, target: str, source: str, bounds: tuple[str, ...], *, evolve: bool
) -> str:
    """One MERGE of the view `source`, which holds the ranking, into `target`.

    Its conditions come from the plan; `bounds` on the target's key let file statistics prune,
    and `evolve` adds the columns that the target lacks.
    """
    texts = plan.texts
    names = [quoted(column.name) for column in plan.columns]
    lines = [
        f"MERGE {'WITH SCHEMA EVOLUTION ' if evolve else ''}INTO {target} AS t",
        f"USING {quoted(source)} AS s",
        f"ON {' AND '.join([texts.matched, *bounds])}",
        f"WHEN MATCHED AND ({texts.newer}) AND ({texts.is_delete}) THEN {_ends(texts)}",
        f"WHEN MATCHED AND ({texts.newer}) AND ({texts.is_upsert}) THEN UPDATE SET "
        + ", ".join(f"{name} = s.{name}" for name in names),
        f"WHEN NOT MATCHED AND ({texts.inserts}) THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})",
    ]
    if plan.rebuild:
        values = ", ".join(f"{quoted(name)} = {value}" for name, value in texts.others.items())
        then = f"UPDATE SET {values}" if values else "DELETE"
        lines.append(f"WHEN NOT MATCHED BY SOURCE AND ({texts.is_other}) THEN {then}")
    return "\n".join(lines)


def _ends(texts: MergeTexts) -> str:
    """What becomes of a row that the source deletes."""
    values = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in texts.marked)
    return f"UPDATE SET {values}" if values else "DELETE"


def bounds_query(keys: tuple[Column, ...], source: str) -> str:
    """One row with the smallest and largest value of each key, and whether it has NULLs.

    Times come as text: the first years among them overflow what PySpark makes of them.
    """
    parts = []
    for at, key in enumerate(keys):
        name = quoted(key.name)
        for side, function in (("low", "min"), ("high", "max")):
            found = f"{function}({name})"
            found = f"CAST({found} AS STRING)" if _is_time(key) else found
            parts.append(f"{found} AS {side}{at}")
        parts.append(f"coalesce(bool_or({name} IS NULL), false) AS null{at}")
    return f"SELECT {', '.join(parts)} FROM {quoted(source)}"


def extent_of(row: Mapping[str, Any], at: int, key: Column) -> Extent:
    """What `bounds_query` found of its key number `at`."""
    low, high = row[f"low{at}"], row[f"high{at}"]
    if _is_time(key) and low is not None:
        low, high = datetime.fromisoformat(low), datetime.fromisoformat(high)
    return Extent(low, high, row[f"null{at}"])


def _is_time(key: Column) -> bool:
    return key.type.startswith("TIMESTAMP")
