"""CHECK and FOREIGN KEY constraints out of a table's definition, and their end."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.references import Checker
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.parser import parse_condition
from cdc_assets.sandbox.language.scope import Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.tokens import QUOTED, VARIABLE, WORD, tokenize
from cdc_assets.sandbox.results import SqlError


def constrain(
    context: Context, work: Work, binder: QueryBinder, table: e.Table, given: s.TableDefinition
) -> None:
    """Add a definition's constraints to a stored table; raises Msg 547 for rows that break them."""
    if not given.checks and not given.references:
        return
    checks = tuple(_check(context, binder, table, check) for check in given.checks)
    keys = tuple(_reference(context, work, table, reference) for reference in given.references)
    _refuse_names(work, table, [*(c.name for c in checks), *(k.name for k in keys)])
    changed = replace(
        table, checks=(*table.checks, *checks), foreign_keys=(*table.foreign_keys, *keys)
    )
    work.catalog = work.current.put(work.connection, changed)
    database = context.catalog.database(table.database).name
    checker = Checker(work, binder, changed, database, "ALTER TABLE")
    checker.rows(changed.physical, checks)
    checker.children(changed.physical, keys)


def _refuse_names(work: Work, table: e.Table, names: Sequence[str]) -> None:
    taken: set[str] = set()
    for other in work.current.tables_of(table.database):
        if other.schema == table.schema:
            taken.add(other.name.lower())
            taken.update(key.name.lower() for key in other.keys if key.constraint)
            taken.update(check.name.lower() for check in other.checks)
            taken.update(key.name.lower() for key in other.foreign_keys)
    for place, name in enumerate(names):
        if name.lower() in taken or name.lower() in (n.lower() for n in names[:place]):
            raise SqlError(
                2714, f"There is already an object named '{name}' in the database.", 16, 6
            )


def _check(
    context: Context, binder: QueryBinder, table: e.Table, given: s.CheckDefinition
) -> e.Check:
    tokens = tokenize(given.text)
    if any(t.kind == VARIABLE for t in tokens):
        raise SqlError(112, "Variables are not allowed in the CREATE TABLE statement.", 15)
    scope = Scope(None, [Source("n", (table.schema, table.name), relation_of(table))])
    binder.condition(parse_condition(given.text), scope)
    if any(t.kind == WORD and t.upper == "SELECT" for t in tokens):
        raise SqlError(
            1046,
            "Subqueries are not allowed in this context. Only scalar expressions are allowed.",
            15,
        )
    column = table.column(given.column) if given.column is not None else None
    name = given.name or _made("CK", table, given.column or "", given.text)
    number = context.store.new_object_id()
    return e.Check(number, name, given.text, column.id if column is not None else None)


def _reference(
    context: Context, work: Work, table: e.Table, given: s.ReferenceDefinition
) -> e.ForeignKey:
    columns = [_column(table, name, given) for name in given.columns]
    name = given.name or _made("FK", table, given.columns[0], ".".join(given.target))
    parts = given.target
    found = work.current.table(table.database, parts[-2] if len(parts) > 1 else "dbo", parts[-1])
    if found is None or found.shipped:
        raise SqlError(1767, f"Foreign key '{name}' references invalid table '{'.'.join(parts)}'.")
    target = _target_columns(found, name, given)
    if len(target) != len(columns):
        raise SqlError(
            8139,
            "Number of referencing columns in foreign key differs from number of referenced "
            f"columns, table '{table.name}'.",
        )
    for own, other in zip(columns, target, strict=True):
        if own.type != other.type:
            raise SqlError(
                1778,
                f"Column '{found.schema}.{found.name}.{other.name}' is not the same data type as "
                f"referencing column '{table.name}.{own.name}' in foreign key '{name}'.",
            )
    return e.ForeignKey(
        context.store.new_object_id(),
        name,
        tuple(c.id for c in columns),
        found.id,
        tuple(c.id for c in target),
    )


def _target_columns(
    target: e.Table, name: str, given: s.ReferenceDefinition
) -> tuple[e.Column, ...]:
    """The key that is referenced; raises Msg 1773 or 1776 where there is none."""
    if not given.target_columns:
        if target.primary is None:
            raise SqlError(
                1773,
                f"Foreign key '{name}' has implicit reference to object "
                f"'{target.schema}.{target.name}' which does not have a primary key defined on it.",
            )
        return tuple(target.by_id(column) for column in target.primary.columns)
    wanted = tuple(_column(target, column, given) for column in given.target_columns)
    numbers = {column.id for column in wanted}
    if not any(key.unique and set(key.columns) == numbers for key in target.keys):
        raise SqlError(
            1776,
            "There are no primary or candidate keys in the referenced table "
            f"'{target.schema}.{target.name}' that match the referencing column list in the "
            f"foreign key '{name}'.",
        )
    return wanted


def _column(table: e.Table, name: str, given: s.ReferenceDefinition) -> e.Column:
    column = table.column(name)
    if column is None:
        raise SqlError(
            1770 if table.name.lower() == given.target[-1].lower() else 1769,
            f"Foreign key '{given.name or ''}' references invalid column '{name}' in table "
            f"'{table.name}'.",
        )
    return column


def _made(prefix: str, table: e.Table, column: str, text: str) -> str:
    """A constraint's name as SQL Server makes one up."""
    digest = hashlib.sha256(f"{table.name}/{column}/{text}".encode()).hexdigest()[:8].upper()
    return "__".join(part for part in (prefix, table.name[:9], column[:9], digest) if part)


# --- what stands in the way --------------------------------------------------------------------


def without(table: e.Table, name: str) -> e.Table | None:
    """The table without a constraint of that name, or None where it has none of these kinds."""
    checks = tuple(c for c in table.checks if c.name.lower() != name.lower())
    keys = tuple(k for k in table.foreign_keys if k.name.lower() != name.lower())
    if len(checks) == len(table.checks) and len(keys) == len(table.foreign_keys):
        return None
    return replace(table, checks=checks, foreign_keys=keys)


def refuse_drop_of_key(work: Work, table: e.Table, key: e.Key) -> None:
    """Raise Msg 3725 where a foreign key references the key."""
    for child, reference in work.current.referencing(table.id):
        if set(reference.target_columns) == set(key.columns):
            raise SqlError(
                3725,
                f"The constraint '{key.name}' is being referenced by table '{child.name}', foreign "
                f"key constraint '{reference.name}'.",
            )


def refuse_change_of_column(work: Work, table: e.Table, column: e.Column, what: str) -> None:
    """Raise Msg 5074 where a constraint needs the column."""
    names = [
        check.name
        for check in table.checks
        if column.name.lower()
        in {t.value.lower() for t in tokenize(check.text) if t.kind in (WORD, QUOTED)}
    ]
    names += [key.name for key in table.foreign_keys if column.id in key.columns]
    names += [
        key.name for _, key in work.current.referencing(table.id) if column.id in key.target_columns
    ]
    if names:
        raise SqlError(
            5074, f"The object '{names[0]}' is dependent on column '{column.name}' ({what})."
        )


def refuse_end_of_table(work: Work, table: e.Table, number: int) -> None:
    """Raise Msg 3726 (DROP) or 4712 (TRUNCATE) where another table's foreign key needs it."""
    if not any(child.id != table.id for child, _ in work.current.referencing(table.id)):
        return
    if number == 3726:
        text = (
            f"Could not drop object '{table.schema}.{table.name}' because it is referenced by a "
            "FOREIGN KEY constraint."
        )
    else:
        text = (
            f"Cannot truncate table '{table.name}' because it is being referenced by a FOREIGN "
            "KEY constraint."
        )
    raise SqlError(number, text)


def refuse_in_temporary(definition: s.TableDefinition) -> None:
    """Temporary tables have keys alone."""
    if definition.checks or definition.references:
        raise errors.unsupported("A CHECK or FOREIGN KEY constraint of a temporary table")
