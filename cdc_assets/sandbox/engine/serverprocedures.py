"""sp_databases, sp_server_info, sp_fkeys, sp_stored_procedures, as drivers ask; and sp_rename."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.metadata import named_object
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.engine.viewrows import Viewer
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.results import Message, Result, SqlError

_DATABASES = made.described("DATABASE_NAME sysname, DATABASE_SIZE int, REMARKS varchar(254)")
_SERVER = made.described(
    "attribute_id int, attribute_name varchar(60), attribute_value varchar(255)"
)
_KEYS = made.described(
    "PKTABLE_QUALIFIER sysname, PKTABLE_OWNER sysname, PKTABLE_NAME sysname, "
    "PKCOLUMN_NAME sysname, FKTABLE_QUALIFIER sysname, FKTABLE_OWNER sysname, "
    "FKTABLE_NAME sysname, FKCOLUMN_NAME sysname, KEY_SEQ smallint, UPDATE_RULE smallint, "
    "DELETE_RULE smallint, FK_NAME sysname, PK_NAME sysname, DEFERRABILITY smallint"
)
_PROCEDURES = made.described(
    "PROCEDURE_QUALIFIER sysname, PROCEDURE_OWNER sysname, PROCEDURE_NAME nvarchar(134), "
    "NUM_INPUT_PARAMS int, NUM_OUTPUT_PARAMS int, NUM_RESULT_SETS int, REMARKS varchar(254), "
    "PROCEDURE_TYPE smallint"
)
_NO_ACTION, _NOT_DEFERRABLE = 1, 7
_ATTRIBUTES = (
    (1, "DBMS_NAME", "Microsoft SQL Server"),
    (2, "DBMS_VER", "Microsoft SQL Server 2022 - 16.0.4135.4"),
    (10, "OWNER_TERM", "owner"),
    (11, "TABLE_TERM", "table"),
    (12, "MAX_OWNER_NAME_LENGTH", "128"),
    (13, "TABLE_LENGTH", "128"),
    (14, "MAX_QUAL_LENGTH", "128"),
    (15, "COLUMN_LENGTH", "128"),
    (16, "IDENTIFIER_CASE", "MIXED"),
    (17, "TX_ISOLATION", "2"),
    (
        18,
        "COLLATION_SEQ",
        "charset=iso_1 sort_order=nocase_iso charset_num=1 sort_order_num=52",
    ),
    (19, "SAVEPOINT_SUPPORT", "Y"),
    (20, "MULTI_RESULT_SETS", "Y"),
    (22, "ACCESSIBLE_TABLES", "Y"),
    (100, "USERID_LENGTH", "128"),
    (101, "QUALIFIER_TERM", "database"),
    (102, "NAMED_TRANSACTIONS", "Y"),
    (103, "SPROC_AS_LANGUAGE", "Y"),
    (104, "ACCESSIBLE_SPROC", "Y"),
    (105, "MAX_INDEX_COLS", "16"),
    (106, "RENAME_TABLE", "Y"),
    (107, "RENAME_COLUMN", "Y"),
    (108, "DROP_COLUMN", "Y"),
    (109, "INCREASE_COLUMN_LENGTH", "Y"),
    (110, "DDL_IN_TRANSACTION", "Y"),
    (111, "DESCENDING_INDEXES", "Y"),
    (112, "SP_RENAME", "Y"),
    (113, "REMOTE_SPROC", "Y"),
    (500, "SYS_SPROC_VERSION", "16.00.4135"),
)


def _databases(call: Call) -> Iterator[Result]:
    """sp_databases: those the login may enter; their size in KB is not kept, so NULL."""
    call.declare()
    names = sorted(
        d.name
        for d in call.context.catalog.databases.values()
        if call.context.access.may_enter(d.id)
    )
    yield made.result(_DATABASES, [(name, None, None) for name in names])


def _server_info(call: Call) -> Iterator[Result]:
    """sp_server_info: every attribute, or the one asked for."""
    call.declare("@attribute_id")
    wanted = call.number("@attribute_id")
    yield made.result(_SERVER, [row for row in _ATTRIBUTES if wanted in (None, row[0])])


def _foreign_keys(call: Call) -> Iterator[Result]:
    """sp_fkeys: the foreign keys that reference a table, or that a table has."""
    call.declare(
        *("@pktable_name", "@pktable_owner", "@pktable_qualifier"),
        *("@fktable_name", "@fktable_owner", "@fktable_qualifier"),
    )
    parent, child = call.text("@pktable_name"), call.text("@fktable_name")
    if parent is None and child is None:
        raise SqlError(15252, "The primary or foreign key table name must be given.", 16)
    viewer = Viewer(call.context.catalog, call.context.access, call.context.current)
    rows = []
    for table in viewer.tables:
        for key in table.foreign_keys:
            target = viewer.catalog.existing_table(key.target)
            if _is(target, parent, call.text("@pktable_owner")) and _is(
                table, child, call.text("@fktable_owner")
            ):
                rows += _rows(viewer.database.name, table, key, target)
    by_child = parent is not None
    rows.sort(
        key=lambda r: (str(r[5] if by_child else r[1]), str(r[6] if by_child else r[2]), r[8])
    )
    yield made.result(_KEYS, rows)


def _is(table: e.Table, name: str | None, owner: str | None) -> bool:
    return (name is None or table.name.lower() == name.lower()) and (
        owner is None or table.schema.lower() == owner.lower()
    )


def _rows(
    database: str, table: e.Table, key: e.ForeignKey, target: e.Table
) -> list[tuple[str | int | None, ...]]:
    index = next((k.name for k in target.keys if set(k.columns) == set(key.target_columns)), None)
    return [
        (
            *(database, target.schema, target.name, target.by_id(other).name),
            *(database, table.schema, table.name, table.by_id(own).name),
            *(place, _NO_ACTION, _NO_ACTION, key.name, index, _NOT_DEFERRABLE),
        )
        for place, (own, other) in enumerate(
            zip(key.columns, key.target_columns, strict=True), start=1
        )
    ]


def _stored_procedures(call: Call) -> Iterator[Result]:
    """sp_stored_procedures: there are none of a user's here."""
    call.declare("@sp_name", "@sp_owner", "@sp_qualifier", "@fUsePattern")
    yield made.result(_PROCEDURES, [])


def _rename(call: Call) -> Iterator[Message]:
    """sp_rename of a table: its id stays, and so does what is captured of it."""
    call.declare("@objname", "@newname", "@objtype")
    shown, name = call.required("@objname"), call.required("@newname")
    if (call.text("@objtype") or "OBJECT").upper() != "OBJECT":
        raise errors.unsupported("sp_rename of anything but a table")
    context = call.context
    table = named_object(context, shown)
    if table is None or not context.access.administrator:
        raise SqlError(
            15225,
            f"No item by the name of '{shown}' could be found in the current database "
            f"'{context.current.name}', given that @itemtype was input as '(null)'.",
        )
    if context.catalog.table(table.database, table.schema, name) is not None:
        raise SqlError(
            15335,
            f"Error: The new name '{name}' is already in use as a object name and would cause a "
            "duplicate that is not permitted.",
        )
    with call.session.writing() as work:
        work.catalog = work.current.put(work.connection, replace(table, name=name))
    yield Message(
        15477,
        "Caution: Changing any part of an object name could break scripts and stored procedures.",
        0,
    )


PROCEDURES: dict[str, Run] = {
    "sp_rename": _rename,
    "sp_databases": _databases,
    "sp_server_info": _server_info,
    "sp_fkeys": _foreign_keys,
    "sp_stored_procedures": _stored_procedures,
}
