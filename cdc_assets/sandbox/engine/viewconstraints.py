"""The rows of the catalogue views of constraints and of views."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.viewrows import Row, Viewer


def _object(viewer: Viewer, table: e.Table, name: str, number: int, kind: tuple[str, str]) -> Row:
    """An object's columns as sys.objects has them, of a constraint on a table."""
    schema = viewer.schema_id(table.schema)
    moment = table.created
    return (name, number, None, schema, table.id, *kind, moment, moment, False, False, False)


def constraint_objects(viewer: Viewer) -> Iterator[Row]:
    """The rows of sys.objects for CHECK and FOREIGN KEY constraints, and for views."""
    for table in viewer.tables:
        for check in table.checks:
            kind = ("C ", "CHECK_CONSTRAINT")
            yield _object(viewer, table, check.name, check.id, kind)
        for key in table.foreign_keys:
            kind = ("F ", "FOREIGN_KEY_CONSTRAINT")
            yield _object(viewer, table, key.name, key.id, kind)
    yield from views_rows(viewer)


def views_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view views."""
    return [
        (
            *(view.name, view.id, None, viewer.schema_id(view.schema), 0, "V ", "VIEW"),
            *(view.created, view.created, False, False, False),
        )
        for view in viewer.views
    ]


def sql_modules_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view sql_modules."""
    return [(view.id, view.definition, True, True, False) for view in viewer.views]


def check_constraints_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view check_constraints."""
    return [
        (
            *_object(viewer, table, check.name, check.id, ("C ", "CHECK_CONSTRAINT")),
            *(
                False,
                False,
                False,
                check.column or 0,
                check.text,
                False,
                check.name.count("__") > 1,
            ),
        )
        for table in viewer.tables
        for check in table.checks
    ]


def foreign_keys_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view foreign_keys."""
    found: list[Row] = []
    for table in viewer.tables:
        for key in table.foreign_keys:
            target = viewer.catalog.existing_table(key.target)
            index = next(
                (k.id for k in target.keys if set(k.columns) == set(key.target_columns)), 1
            )
            found.append(
                (
                    *_object(viewer, table, key.name, key.id, ("F ", "FOREIGN_KEY_CONSTRAINT")),
                    *(key.target, index, False, False, False),
                    *(0, "NO_ACTION", 0, "NO_ACTION", key.name.count("__") > 1),
                )
            )
    return found


def foreign_key_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view foreign_key_columns."""
    return [
        (key.id, place, table.id, own, key.target, other)
        for table in viewer.tables
        for key in table.foreign_keys
        for place, (own, other) in enumerate(
            zip(key.columns, key.target_columns, strict=True), start=1
        )
    ]


def key_constraints_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view key_constraints."""
    return [
        (
            *_object(viewer, table, key.name, table.id + key.id, _key_kind(key)),
            *(key.id, key.name.count("__") > 1),
        )
        for table in viewer.tables
        for key in table.keys
        if key.constraint
    ]


def _key_kind(key: e.Key) -> tuple[str, str]:
    if key.primary:
        return ("PK", "PRIMARY_KEY_CONSTRAINT")
    return ("UQ", "UNIQUE_CONSTRAINT")


# --- INFORMATION_SCHEMA ------------------------------------------------------------------------


def _constraints(viewer: Viewer) -> Iterator[tuple[e.Table, str, str, tuple[int, ...]]]:
    """Every constraint: its table, name, kind and columns in order."""
    for table in viewer.tables:
        for key in table.keys:
            if key.constraint:
                yield table, key.name, "PRIMARY KEY" if key.primary else "UNIQUE", key.columns
        for check in table.checks:
            yield table, check.name, "CHECK", ()
        for reference in table.foreign_keys:
            yield table, reference.name, "FOREIGN KEY", reference.columns


def information_constraints_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view TABLE_CONSTRAINTS."""
    database = viewer.database.name
    return [
        (*(database, table.schema, name), *(database, table.schema, table.name), kind, "NO", "NO")
        for table, name, kind, _ in _constraints(viewer)
    ]


def information_key_columns_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view KEY_COLUMN_USAGE."""
    database = viewer.database.name
    return [
        (
            *(database, table.schema, name),
            *(database, table.schema, table.name, table.by_id(column).name, place),
        )
        for table, name, _, columns in _constraints(viewer)
        for place, column in enumerate(columns, start=1)
    ]


def information_references_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view REFERENTIAL_CONSTRAINTS."""
    database = viewer.database.name
    found: list[Row] = []
    for table in viewer.tables:
        for key in table.foreign_keys:
            target = viewer.catalog.existing_table(key.target)
            name = next(
                (k.name for k in target.keys if set(k.columns) == set(key.target_columns)), None
            )
            found.append(
                (
                    *(database, table.schema, key.name, database, target.schema, name),
                    *("SIMPLE", "NO ACTION", "NO ACTION"),
                )
            )
    return found


def information_checks_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view CHECK_CONSTRAINTS."""
    return [
        (viewer.database.name, table.schema, check.name, check.text)
        for table in viewer.tables
        for check in table.checks
    ]


def information_views_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view VIEWS."""
    return [
        (viewer.database.name, view.schema, view.name, view.definition, "NONE", "NO")
        for view in viewer.views
    ]


def information_schemata_rows(viewer: Viewer) -> list[Row]:
    """The rows of the view SCHEMATA."""
    names = [*viewer.database.schemas, "guest", "INFORMATION_SCHEMA", "sys"]
    return [(viewer.database.name, name, "dbo", None, None, "iso_1") for name in names]
