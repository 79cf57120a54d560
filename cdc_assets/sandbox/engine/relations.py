"""Stored tables as something the binder reads from."""

from __future__ import annotations

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.language.scope import Relation, RelationColumn


def relation_of(
    table: e.Table, readable: frozenset[str] | None = None, names: tuple[str, ...] = ()
) -> Relation:
    """A table as something to read from."""
    return Relation(
        table.physical,
        tuple(RelationColumn(c.name, c.physical, c.type, c.nullable) for c in table.columns),
        names or (table.schema, table.name),
        table.id,
        readable,
        exact=table.exact,
    )
