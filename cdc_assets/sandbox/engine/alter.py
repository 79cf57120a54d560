"""ALTER TABLE: columns and keys come and go, and capture instances remember it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import tableconstraints
from cdc_assets.sandbox.engine.capture import FIRST_CAPTURED
from cdc_assets.sandbox.engine.columns import columns_of, keys_of, primary_not_null
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.work import Work, key_items
from cdc_assets.sandbox.language import collation, errors, types
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.convert import assign
from cdc_assets.sandbox.language.parser import parse_expression
from cdc_assets.sandbox.language.scope import Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError, SqlType


def add(
    work: Work,
    binder: QueryBinder,
    table: e.Table,
    definition: s.TableDefinition,
    default_collation: str,
) -> None:
    """ADD columns and keys."""
    columns = columns_of(
        binder, definition.columns, default_collation, table.columns, table.next_column
    )
    rows = _rows(work, table)
    for place, column in enumerate(columns):
        # A computed column may use those that come with it.
        so_far = replace(table, columns=(*table.columns, *columns[:place]))
        _add_column(work, binder, so_far, column, rows)
    everything = (*table.columns, *columns)
    keys = keys_of(table.name, everything, definition.keys, table.keys)
    changed = replace(
        table,
        columns=primary_not_null(everything, keys, definition.columns),
        keys=(*table.keys, *keys),
        next_column=table.next_column + len(columns),
    )
    for key in keys:
        check_new_key(work, changed, key)
    work.catalog = work.current.put(work.connection, changed)


def _rows(work: Work, table: e.Table) -> int:
    row = work.connection.one(f"SELECT count(*) FROM {table.physical}")
    return int(row[0]) if row else 0


def _add_column(
    work: Work, binder: QueryBinder, table: e.Table, column: e.Column, rows: int
) -> None:
    kind = types.physical(column.type)
    work.connection.execute(f"ALTER TABLE {table.physical} ADD COLUMN {column.physical} {kind}")
    text = None
    scope = Scope()
    if column.identity is not None or column.type.name == "rowversion":
        if rows:
            raise errors.unsupported("ADD of an identity or rowversion column to a filled table")
    elif column.computed is not None:
        scope = Scope(None, [Source("t", (table.name,), relation_of(table))])
        text = binder.value(parse_expression(column.computed), scope).sql
    elif column.default is not None and not column.nullable:
        # With NULLs allowed the rows already there keep NULL, as without WITH VALUES.
        value = binder.value(parse_expression(column.default), scope)
        text = assign(value, column.type, f"{table.name}.{column.name}").sql
    elif not column.nullable and rows:
        raise SqlError(
            4901,
            "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT "
            "definition specified, or the column being added is an identity or timestamp column. "
            f"Column '{column.name}' cannot be added to non-empty table '{table.name}' because it "
            "does not satisfy these conditions.",
        )
    if text is not None and rows:
        work.connection.execute(f"UPDATE {table.physical} AS t SET {column.physical} = {text}")


def check_new_key(work: Work, table: e.Table, key: e.Key) -> None:
    """Raise Msg 1505 where rows already there repeat a new unique key."""
    if not key.unique:
        return
    items = ", ".join(key_items(table, key, ""))
    found = work.connection.one(
        f"SELECT {items} FROM {table.physical} GROUP BY {items} HAVING count(*) > 1 LIMIT 1"
    )
    if found is not None:
        raise SqlError(
            1505,
            "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for "
            f"the object name '{table.schema}.{table.name}' and the index name '{key.name}'. The "
            f"duplicate key value is ({', '.join(str(value) for value in found)}).",
        )


def _column(table: e.Table, name: str) -> e.Column:
    column = table.column(name)
    if column is None:
        raise SqlError(
            4924,
            f"ALTER TABLE ALTER COLUMN failed because column '{name}' does not exist in table "
            f"'{table.name}'.",
        )
    return column


def alter_column(
    work: Work, table: e.Table, definition: s.ColumnDefinition, default_collation: str
) -> None:
    """ALTER COLUMN: another type or nullability."""
    column = _column(table, definition.name)
    if definition.type is None or column.generated or column.identity is not None:
        raise SqlError(
            4928,
            f"Cannot alter column '{definition.name}' because it is 'COMPUTED' or an identity.",
        )
    if any(column.id in key.columns for key in table.keys):
        raise SqlError(
            5074,
            f"The object is dependent on column '{definition.name}'.",
        )
    tableconstraints.refuse_change_of_column(work, table, column, "ALTER COLUMN")
    kind = definition.type
    if kind.name in types.STRINGS:
        chosen = definition.collation or column.type.collation or default_collation
        kind = replace(kind, collation=collation.stored(chosen))
    nullable = definition.nullable is not False
    missing = work.connection.one(
        f"SELECT 1 FROM {table.physical} WHERE {column.physical} IS NULL LIMIT 1"
    )
    if not nullable and missing:
        raise SqlError(
            515,
            f"Cannot insert the value NULL into column '{column.name}', table '{table.name}'; "
            "column does not allow nulls. UPDATE fails.",
        )
    _retype(work, table.physical, column.physical, column.type, kind, table.name)
    changed = replace(column, type=kind, nullable=nullable, alias_id=definition.alias_id)
    columns = tuple(changed if c.id == column.id else c for c in table.columns)
    work.catalog = work.current.put(work.connection, replace(table, columns=columns))
    for instance in work.current.instances_of(table.id):
        _retype_captured(work, instance, changed)


def _retype(work: Work, table: str, name: str, before: SqlType, after: SqlType, shown: str) -> None:
    text = assign(Value(name, before), after, f"{shown}.{name}").sql
    work.connection.execute(
        f"ALTER TABLE {table} ALTER COLUMN {name} SET DATA TYPE {types.physical(after)} "
        f"USING {text}"
    )


def _retype_captured(work: Work, instance: e.Instance, column: e.Column) -> None:
    """The change table's column follows its source's."""
    for place, captured in enumerate(instance.columns):
        if captured.id != column.id:
            continue
        name = f"c{FIRST_CAPTURED + place}"
        change_table = work.current.existing_table(instance.table)
        for physical in (change_table.physical, instance.log):
            _retype(work, physical, name, captured.type, column.type, change_table.name)
        columns = tuple(
            replace(c, type=column.type) if c.physical == name else c for c in change_table.columns
        )
        new = tuple(
            replace(c, type=column.type) if c.id == column.id else c for c in instance.columns
        )
        work.catalog = work.current.put(
            work.connection, replace(change_table, columns=columns), replace(instance, columns=new)
        )


def drop_columns(work: Work, table: e.Table, names: Sequence[str]) -> None:
    """DROP COLUMN: a capture instance keeps the column and gets NULL from now on."""
    for name in names:
        column = _column(table, name)
        if any(column.id in key.columns for key in table.keys):
            raise SqlError(
                5074,
                f"ALTER TABLE DROP COLUMN {name} failed because one or more objects access this "
                "column.",
            )
        tableconstraints.refuse_change_of_column(work, table, column, "DROP COLUMN")
        if len(table.columns) == 1:
            raise SqlError(
                4923,
                f"ALTER TABLE DROP COLUMN failed because '{name}' is the only "
                f"data column in table '{table.name}'.",
            )
        work.connection.execute(f"ALTER TABLE {table.physical} DROP COLUMN {column.physical}")
        table = replace(table, columns=tuple(c for c in table.columns if c.id != column.id))
    work.catalog = work.current.put(work.connection, table)


def drop_constraints(
    work: Work, table: e.Table, names: Sequence[str], *, index: bool = False
) -> None:
    """DROP CONSTRAINT, or DROP INDEX; raises Msg 3728 or 3701."""
    for name in names:
        rest = None if index else tableconstraints.without(table, name)
        if rest is not None:
            table = rest
            continue
        key = next((k for k in table.keys if k.name.lower() == name.lower()), None)
        if key is None or key.constraint == index:
            raise SqlError(3728, f"'{name}' is not a constraint.")
        used = any(i.index_name == key.name for i in work.current.instances_of(table.id))
        if used:
            raise _used_by_capture(table, key)
        tableconstraints.refuse_drop_of_key(work, table, key)
        table = replace(table, keys=tuple(k for k in table.keys if k.id != key.id))
    work.catalog = work.current.put(work.connection, table)


def _used_by_capture(table: e.Table, key: e.Key) -> SqlError:
    """Msg 22979 for a constraint, 22983 for an index."""
    if key.constraint:
        return SqlError(
            22979,
            f"The unique index '{key.name}' on table '{table.name}' is used by Change Data "
            "Capture. The constraint using this index cannot be dropped or disabled.",
        )
    return SqlError(
        22983,
        f"The unique index '{key.name}' on source table '{table.name}' is used by Change Data "
        "Capture. To alter or drop the index, you must first disable Change Data Capture on the "
        "table.",
    )


def record_ddl(work: Work, table: e.Table, statement: s.AlterTable) -> None:
    """The statement into the DDL history of the table's capture instances, under one LSN."""
    instances = work.current.instances_of(table.id)
    if not instances:
        return
    with work.store.commit_lock:
        position = work.store.next_lsn(table.database, 0)
    definition = statement.definition
    touched = {c.name.lower() for c in (definition.columns if definition else ())}
    changes = []
    for instance in instances:
        number = sum(h.instance == instance.table for h in work.current.of_kind(e.DdlChange)) + 1
        captured = {c.name.lower() for c in instance.columns}
        changes.append(
            e.DdlChange(
                instance.table,
                instance.database,
                table.id,
                number,
                statement.text,
                work.store.clock.datetime(),
                position.lsn.text,
                statement.action == "ALTER COLUMN" and bool(captured & touched),
            )
        )
    work.catalog = work.current.put(work.connection, *changes)
