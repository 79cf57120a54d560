"""Names in queries, resolved for one session: tables, views, variables, functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from cdc_assets.sandbox.engine import cdcfunctions, collations, serverfunctions, viewrows, views
from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.changefunctions import changes_relation
from cdc_assets.sandbox.engine.clock import iana
from cdc_assets.sandbox.engine.context import SERVER_NAME, VERSION, Context
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.rows import Described
from cdc_assets.sandbox.engine.rows import table as arrow_table
from cdc_assets.sandbox.language import errors, types, values
from cdc_assets.sandbox.language.functions import scalar as plain
from cdc_assets.sandbox.language.parser import parse_query
from cdc_assets.sandbox.language.scope import Relation, RelationColumn
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError

_MAX_DEPTH = 32
_SYSTEM_SCHEMAS = frozenset({"sys", "information_schema"})
_CDC_VIEWS = frozenset({"change_tables", "captured_columns"})


class Resolver:
    """Answers what the binder asks."""

    def __init__(self, context: Context, *, depth: int = 0) -> None:
        self.context = context
        self._depth = depth
        """How many views it is inside of, where their owner's rights hold and not the login's."""

    # --- relations -----------------------------------------------------------------------------

    def relation(self, parts: tuple[str, ...]) -> Relation:
        """A table or view by name; raises Msg 208, 229, 911, 916 or 1087."""
        name = parts[-1]
        if name.startswith(("@", "#")):
            return self._temporary(name)
        if len(parts) > 3:
            raise errors.unsupported("A linked server")
        schema = (parts[-2] if len(parts) > 1 else "") or "dbo"
        if schema.lower() in _SYSTEM_SCHEMAS or (
            schema.lower() == "cdc" and name.lower() in _CDC_VIEWS
        ):
            return self._view(parts, schema, name)
        table = self.context.find_table(parts)
        if table is None:
            view = self.context.find_view(parts)
            if view is not None:
                self.context.check_isolation(view.database)
                return self._stored_view(parts, view)
        if table is not None:
            self.context.check_isolation(table.database)
        if self._depth and table is not None:
            return relation_of(table, None, self._names(parts, table))
        if table is None or not (self.context.access.sees(table)):
            if table is not None:
                raise self.context.access.denied("SELECT", table.name, table.schema, table.database)
            raise errors.invalid_object(".".join(parts))
        readable = self.context.access.require_select(table)
        return relation_of(table, readable, self._names(parts, table))

    def _stored_view(self, parts: tuple[str, ...], view: e.View) -> Relation:
        """A view's query, bound in its own database with its owner's rights."""
        if self._depth >= _MAX_DEPTH:
            raise SqlError(
                217,
                "Maximum stored procedure, function, trigger, or view nesting level exceeded "
                "(limit 32).",
            )
        table = view.as_table()
        readable = None if self._depth else self.context.access.require_select(table)
        database = self.context.catalog.database(view.database)
        inner = replace(self.context, database=database.name, variables={}, temporary={})
        binder = QueryBinder(Resolver(inner, depth=self._depth + 1), database.collation)
        bound = binder.query(parse_query(view.query))
        if len(bound.outputs) != len(view.columns):
            raise SqlError(
                4502,
                f"View or function '{view.name}' has more column names specified than columns "
                "defined.",
            )
        columns = tuple(
            RelationColumn(c.name, f"x{i}", output.value.type, output.value.nullable)
            for i, (c, output) in enumerate(zip(view.columns, bound.outputs, strict=True), start=1)
        )
        names = self._names(parts, table)
        reads = frozenset(binder.objects)
        return Relation(f"({bound.sql})", columns, names, view.id, readable, reads)

    def _names(self, parts: tuple[str, ...], table: e.Table) -> tuple[str, ...]:
        database = parts[-3] if len(parts) > 2 and parts[-3] else self.context.database
        return (database, table.schema, table.name)

    def _temporary(self, name: str) -> Relation:
        found = self.context.temporary.get(name.lower())
        if found is None:
            if name.startswith("@"):
                raise SqlError(1087, f'Must declare the table variable "{name}".', 15)
            raise errors.invalid_object(name)
        columns = tuple(
            RelationColumn(c.name, c.physical, c.type, c.nullable) for c in found.columns
        )
        return Relation(found.physical, columns, (found.name,))

    def _view(self, parts: tuple[str, ...], schema: str, name: str) -> Relation:
        database = self.context.current
        if len(parts) > 2 and parts[-3]:
            database = self.context.find_database(parts[-3])
        if schema.lower() == "cdc":
            if not database.cdc_enabled:
                raise errors.invalid_object(".".join(parts))
            self.context.check_isolation(database.id)
        found = views.find(schema, name)
        if found is None:
            dynamic = serverfunctions.dynamic_view(self.context, schema, name)
            if dynamic is None:
                raise errors.invalid_object(".".join(parts))
            described, rows = dynamic
            data = arrow_table(described, rows)
        else:
            described, make = found
            data = self._view_rows(described, make, database)
        registered = f"view_{schema.lower()}_{name.lower()}_{database.id}"
        self.context.connection.register(registered, data)
        # A catalogue's names compare as the database's do.
        columns = [
            RelationColumn(column, f"x{i + 1}", collations.typed(kind, database.collation))
            for i, (column, kind) in enumerate(described)
        ]
        sql = registered
        if (schema.lower(), name.lower()) == ("cdc", "change_tables"):
            sql = (
                f"(SELECT v.*, w.start_lsn, CAST(NULL AS BLOB) AS end_lsn FROM {registered} AS v "
                "LEFT JOIN catalog.watermarks AS w ON w.instance = v.x1)"
            )
            columns += [
                RelationColumn("start_lsn", "start_lsn", types.binary(10)),
                RelationColumn("end_lsn", "end_lsn", types.binary(10)),
            ]
        return Relation(sql, tuple(columns), (database.name, schema, name))

    def _view_rows(
        self,
        described: Described,
        make: Callable[[viewrows.Viewer], list[viewrows.Row]],
        database: e.Database,
    ) -> pa.Table:
        """A catalogue view's rows as this login sees them, made once per state of the catalogue."""
        catalog = self.context.catalog
        key = ("view", make, database.id, self.context.login.key)
        if key not in catalog.derived:
            viewer = viewrows.Viewer(catalog, self.context.access, database)
            catalog.derived[key] = arrow_table(described, make(viewer))
        return catalog.derived[key]

    def function_relation(self, name: tuple[str, ...], arguments: Sequence[Value]) -> Relation:
        """A table-valued function; raises Msg 208."""
        if name[-1].lower() == "fn_helpcollations":
            self.context.connection.register("fn_helpcollations", collations.helped())
            return collations.HELP
        found = changes_relation(self._place(name), name, arguments)
        if found is None:
            raise errors.invalid_object(".".join(name))
        self.context.check_isolation(self._place(name).database.id)
        return found

    # --- variables -----------------------------------------------------------------------------

    def variable(self, name: str) -> Value:
        """A variable; raises Msg 137."""
        if name.startswith("@@"):
            return self._system_variable(name)
        found = self.context.variables.get(name.lower())
        if found is None:
            raise errors.undeclared_variable(name)
        return collations.in_database(found, self.context.collation)

    def _system_variable(self, name: str) -> Value:
        context = self.context
        upper = name[2:].upper()
        text: dict[str, str] = {
            "VERSION": VERSION,
            "SERVERNAME": SERVER_NAME,
            "SERVICENAME": "MSSQLSERVER",
            "LANGUAGE": context.options.language,
        }
        if upper in text:
            return values.nvarchar(text[upper])
        numbers: dict[str, int] = {
            "TRANCOUNT": context.transactions,
            "ROWCOUNT": context.row_count,
            "ERROR": context.error_number,
            "MICROSOFTVERSION": 0x10001027,
            "LOCK_TIMEOUT": context.options.lock_timeout,
            "TEXTSIZE": context.options.text_size,
            "NESTLEVEL": 0,
            "PROCID": 0,
            "FETCH_STATUS": 0,
            "OPTIONS": 5496,
            "MAX_CONNECTIONS": 32767,
        }
        if upper in numbers:
            return values.integer(numbers[upper])
        if upper in ("DATEFIRST", "MAX_PRECISION"):
            return values.integer(7 if upper == "DATEFIRST" else 38, types.TINYINT)
        if upper == "SPID":
            return values.integer(context.process_id, types.SMALLINT)
        if upper == "IDENTITY":
            return values.of_python(context.last_identity, types.decimal(38, 0, "numeric"))
        if upper == "DBTS":
            return values.blob(context.store.next_rowversion.to_bytes(8, "big"), types.varbinary(8))
        raise errors.undeclared_variable(name)

    # --- functions -----------------------------------------------------------------------------

    def function(self, name: tuple[str, ...], arguments: Sequence[Value]) -> Value | None:
        """A function that needs the server's state, or None; raises Msg 911 or 916."""
        place = self._place(name)
        upper = ".".join(name[-2:]).upper()
        found = cdcfunctions.scalar(place, upper, arguments)
        if found is not None:
            self.context.check_isolation(place.database.id)
            return found
        # What needs no database is the same in each of them.
        found = plain(upper, arguments) if len(name) > 2 else None
        return found or serverfunctions.scalar(place.context, upper, arguments)

    def _place(self, name: tuple[str, ...]) -> cdcfunctions.Place:
        """The database that a function's name means: its first part, else the current one."""
        if len(name) > 3:
            raise errors.unsupported("A linked server")
        context = self.context.within(name[0]) if len(name) == 3 else self.context
        return cdcfunctions.Place(context)

    def zone(self, name: str) -> str:
        """The IANA name of a Windows time zone; raises Msg 9820."""
        return iana(name)
