"""Columns and keys out of a table's definition."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.sandbox.collations import tells_case
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.aliases import unknown
from cdc_assets.sandbox.language import collation, nodes, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.parser import parse_expression
from cdc_assets.sandbox.language.scope import Relation, RelationColumn, Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.sources import Bound
from cdc_assets.sandbox.results import SqlError, SqlType


def columns_of(
    binder: QueryBinder,
    definitions: Sequence[s.ColumnDefinition],
    default_collation: str,
    existing: Sequence[e.Column] = (),
    first: int = 1,
) -> tuple[e.Column, ...]:
    """The columns that definitions describe; raises Msg 2705, 2744, 2749, 1753."""
    folded = str if tells_case(default_collation) else str.lower
    names = {folded(c.name) for c in existing}
    found: list[e.Column] = []
    for number, definition in enumerate(definitions, start=first):
        if folded(definition.name) in names:
            raise SqlError(
                2705,
                f"Column names in each table must be unique. Column name '{definition.name}' is "
                "specified more than once.",
            )
        names.add(folded(definition.name))
        if definition.type is None:
            found.append(_computed(binder, definition, number, [*existing, *found]))
        else:
            found.append(_plain(definition, definition.type, number, default_collation))
    if sum(c.identity is not None for c in (*existing, *found)) > 1:
        raise SqlError(
            2744,
            "Multiple identity columns specified for table. Only one identity "
            "column per table is allowed.",
        )
    return tuple(found)


def columns_of_query(bound: Bound) -> tuple[e.Column, ...]:
    """The columns that SELECT … INTO makes; raises Msg 1038 and 2705."""
    names: set[str] = set()
    for place, output in enumerate(bound.outputs, start=1):
        if not output.name:
            raise SqlError(
                1038,
                "An object or column name is missing or empty. For SELECT INTO statements, verify "
                f"each column has a name (column {place}).",
                15,
            )
        if output.name.lower() in names:
            raise SqlError(
                2705,
                f"Column names in each table must be unique. Column name '{output.name}' is "
                "specified more than once.",
            )
        names.add(output.name.lower())
    return tuple(
        e.Column(i, output.name, output.value.type, output.value.nullable)
        for i, output in enumerate(bound.outputs, start=1)
    )


def _plain(
    definition: s.ColumnDefinition, kind: SqlType, number: int, default_collation: str
) -> e.Column:
    if kind.name in types.STRINGS:
        chosen = definition.collation or default_collation
        kind = replace(kind, collation=collation.stored(chosen))
    elif definition.collation is not None:
        raise SqlError(448, f"Invalid collation '{definition.collation}'.")
    if kind == types.UNKNOWN:
        raise unknown(definition.alias, number)
    nullable = definition.nullable
    if definition.identity is not None:
        if kind.name not in types.INTEGERS - {"bit"} and not (
            kind.name in types.DECIMALS and not kind.scale
        ):
            raise SqlError(
                2749,
                f"Identity column '{definition.name}' must be of data type int, bigint, smallint, "
                "tinyint, or decimal or numeric with a scale of 0, unencrypted, and constrained to "
                "be nonnullable.",
            )
        nullable = False
    return e.Column(
        number,
        definition.name,
        kind,
        nullable is not False,
        definition.identity,
        definition.default_text,
        alias_id=definition.alias_id,
    )


def _computed(
    binder: QueryBinder, definition: s.ColumnDefinition, number: int, others: Sequence[e.Column]
) -> e.Column:
    text = definition.computed_text or ""
    relation = Relation(
        "", tuple(RelationColumn(c.name, c.physical, c.type, c.nullable) for c in others)
    )
    scope = Scope(None, [Source("t", ("t",), relation)])
    node = parse_expression(text)
    value = binder.value(node, scope)
    return e.Column(
        number,
        definition.name,
        value.type,
        definition.nullable is not False and (value.nullable or not _keeps_nullability(node)),
        computed=text,
        persisted=definition.persisted,
    )


def _keeps_nullability(node: nodes.Node) -> bool:
    """Whether a computed column may be NOT NULL: all others may overflow to NULL."""
    if isinstance(node, nodes.Call):
        return node.name[-1].upper() == "ISNULL"
    return isinstance(node, nodes.Column | nodes.Constant)


def keys_of(
    table: str,
    columns: Sequence[e.Column],
    definitions: Sequence[s.KeyDefinition],
    existing: Sequence[e.Key] = (),
) -> tuple[e.Key, ...]:
    """The keys that definitions describe; raises Msg 1911, 1909, 1919, 1779, 8110."""
    found: list[e.Key] = list(existing)
    for definition in definitions:
        if definition.primary and any(key.primary for key in found):
            if any(key.primary for key in existing):
                raise SqlError(1779, f"Table '{table}' already has a primary key defined on it.")
            raise SqlError(8110, f"Cannot add multiple PRIMARY KEY constraints to table '{table}'.")
        chosen: list[e.Column] = []
        for name, _ in definition.columns:
            same = [c for c in columns if c.name.lower() == name.lower()]
            column = next((c for c in same if c.name == name), same[0] if same else None)
            if column is None:
                raise SqlError(
                    1911, f"Column name '{name}' does not exist in the target table or view."
                )
            if column in chosen:
                raise SqlError(
                    1909,
                    "Cannot use duplicate column names in index. Column name "
                    f"'{column.name}' listed more than once.",
                )
            if types.is_max(column.type):
                raise SqlError(
                    1919,
                    f"Column '{name}' in table '{table}' is of a type that is invalid for use as a "
                    "key column in an index.",
                )
            chosen.append(column)
        clustered = definition.clustered
        if clustered is None:
            clustered = definition.primary and not any(key.clustered for key in found)
        if clustered and any(key.clustered for key in found):
            raise SqlError(1902, f"Cannot create more than one clustered index on table '{table}'.")
        found.append(
            e.Key(
                max((key.id for key in found), default=0 if clustered else 1) + 1,
                definition.name or _name(table, definition, len(found)),
                definition.primary,
                definition.unique,
                clustered,
                tuple(c.id for c in chosen),
                tuple(
                    c.id for c, (_, down) in zip(chosen, definition.columns, strict=True) if down
                ),
            )
        )
    return tuple(found[len(existing) :])


def primary_not_null(
    columns: Sequence[e.Column],
    keys: Sequence[e.Key],
    definitions: Sequence[s.ColumnDefinition],
) -> tuple[e.Column, ...]:
    """A primary key's columns are NOT NULL; raises Msg 8111 where NULL was asked for."""
    asked = {d.name for d in definitions if d.nullable is True}
    made = {d.name for d in definitions}
    asked |= {c.name for c in columns if c.nullable and c.name not in made}
    strict = {number for key in keys if key.primary for number in key.columns}
    for column in columns:
        if column.id in strict and column.name in asked:
            raise SqlError(
                8111, "Cannot define PRIMARY KEY constraint on nullable column in table."
            )
    return tuple(replace(c, nullable=False) if c.id in strict else c for c in columns)


def _name(table: str, definition: s.KeyDefinition, number: int) -> str:
    """A constraint's name as SQL Server makes one up."""
    text = f"{table}/{definition.columns}/{number}".encode()
    digest = hashlib.sha256(text).hexdigest()[:16].upper()
    prefix = "PK" if definition.primary else "UQ"
    return f"{prefix}__{table[:9]}__{digest}"
