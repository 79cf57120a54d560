"""CHECK and FOREIGN KEY constraints: what rows they refuse, with Msg 547."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.relations import relation_of
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import collation
from cdc_assets.sandbox.language.parser import parse_condition
from cdc_assets.sandbox.language.scope import Scope, Source
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.results import SqlError


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks the rows that one statement changes in one table."""

    work: Work
    binder: QueryBinder
    table: e.Table
    database: str
    verb: str

    def rows(self, stage: str, checks: Collection[e.Check] | None = None) -> None:
        """Raise Msg 547 where a new row (c1, c2, …) makes a CHECK false; unknown passes."""
        for check in self.table.checks if checks is None else checks:
            scope = Scope(
                None, [Source("n", (self.table.schema, self.table.name), relation_of(self.table))]
            )
            condition = self.binder.condition(parse_condition(check.text), scope)
            if self._any(f"SELECT 1 FROM {stage} AS n WHERE NOT {condition} LIMIT 1"):
                column = self.table.by_id(check.column).name if check.column else None
                raise self._conflict("CHECK", check.name, self.table, column)

    def children(self, stage: str, keys: Collection[e.ForeignKey]) -> None:
        """Raise Msg 547 where a new row references nothing; asked after the rows are written."""
        for key in keys:
            target = self.work.current.existing_table(key.target)
            self.work.relies_on(target)
            same = _same(self.table, "n.c", key.columns, target, "p.c", key.target_columns)
            given = " AND ".join(f"n.c{column} IS NOT NULL" for column in key.columns)
            if self._any(
                f"SELECT 1 FROM {stage} AS n WHERE {given} AND NOT EXISTS "
                f"(SELECT 1 FROM {target.physical} AS p WHERE {same}) LIMIT 1"
            ):
                kind = "FOREIGN KEY SAME TABLE" if target.id == self.table.id else "FOREIGN KEY"
                column = _only(target, key.target_columns)
                raise self._conflict(kind, key.name, target, column)

    def parents(self, stage: str, prefix: str, written: Collection[int] | None = None) -> None:
        """Raise Msg 547 where a row that is gone is still referenced; `prefix` names old values.

        `written` are the columns of an update; None is a delete.
        """
        for child, key in self.work.current.referencing(self.table.id):
            if written is not None and not set(written) & set(key.target_columns):
                continue
            self.work.relies_on(child)
            gone = _same(self.table, f"o.{prefix}", key.target_columns, child, "x.c", key.columns)
            still = _same(self.table, "p.c", key.target_columns, child, "x.c", key.columns)
            if self._any(
                f"SELECT 1 FROM {child.physical} AS x WHERE EXISTS "
                f"(SELECT 1 FROM {stage} AS o WHERE {gone}) AND NOT EXISTS "
                f"(SELECT 1 FROM {self.table.physical} AS p WHERE {still}) LIMIT 1"
            ):
                same = child.id == self.table.id
                kind = "SAME TABLE REFERENCE" if same else "REFERENCE"
                raise self._conflict(kind, key.name, child, _only(child, key.columns))

    def _any(self, sql: str) -> bool:
        return self.work.connection.one(sql) is not None

    def _conflict(self, kind: str, name: str, table: e.Table, column: str | None) -> SqlError:
        where = f", column '{column}'" if column is not None else ""
        return SqlError(
            547,
            f'The {self.verb} statement conflicted with the {kind} constraint "{name}". The '
            f'conflict occurred in database "{self.database}", table '
            f'"{table.schema}.{table.name}"{where}.',
            16,
            0,
        )


def _same(
    one: e.Table,
    prefix: str,
    columns: tuple[int, ...],
    other: e.Table,
    other_prefix: str,
    other_columns: tuple[int, ...],
) -> str:
    return " AND ".join(
        f"{collation.equality_key(f'{prefix}{a}', one.by_id(a).type)} = "
        f"{collation.equality_key(f'{other_prefix}{b}', other.by_id(b).type)}"
        for a, b in zip(columns, other_columns, strict=True)
    )


def _only(table: e.Table, columns: tuple[int, ...]) -> str | None:
    return table.by_id(columns[0]).name if len(columns) == 1 else None
