"""Which columns a statement may change, and the errors of those it may not."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.language import nodes
from cdc_assets.sandbox.results import SqlError


class TargetColumns:
    """The columns of one table, as INSERT and UPDATE name them."""

    def __init__(self, table: e.Table, *, identity_insert: bool) -> None:
        self.table = table
        self.identity_insert = identity_insert

    def insert_columns(self, names: Sequence[str], width: int | None) -> list[e.Column]:
        """The columns that an INSERT gives values for; raises Msg 207, 264, 213, 544, 271."""
        if names:
            chosen = [self._column(name) for name in names]
            if len({c.id for c in chosen}) < len(chosen):
                raise SqlError(
                    264,
                    f"The column name '{names[-1]}' is specified more than once in the SET clause "
                    "or column list of an INSERT.",
                )
        else:
            chosen = [
                c
                for c in self.table.columns
                if not c.generated and (c.identity is None or self.identity_insert)
            ]
        for column in chosen:
            self._check_writable(column)
        if width is not None and width != len(chosen):
            if not names:
                written = [c for c in self.table.columns if not c.generated]
                if len(written) == width > len(chosen):
                    raise SqlError(
                        8101,
                        "An explicit value for the identity column in table "
                        f"'{self.table.name}' can only be specified when a column list is used "
                        "and IDENTITY_INSERT is ON.",
                    )
                raise SqlError(
                    213, "Column name or number of supplied values does not match table definition."
                )
            more = len(chosen) > width
            raise SqlError(
                109 if more else 110,
                f"There are {'more' if more else 'fewer'} columns in the INSERT statement than "
                "values specified in the VALUES clause. The number of values in the VALUES clause "
                "must match the number of columns specified in the INSERT statement.",
                15,
            )
        return chosen

    def _column(self, name: str) -> e.Column:
        column = self.table.column(name)
        if column is None:
            raise SqlError(207, f"Invalid column name '{name}'.")
        return column

    def _check_writable(self, column: e.Column) -> None:
        if column.computed is not None:
            raise SqlError(
                271,
                f'The column "{column.name}" cannot be modified because it is either a computed '
                "column or is the result of a UNION operator.",
            )
        if column.type.name == "rowversion":
            raise SqlError(273, "Cannot insert an explicit value into a timestamp column.")
        if column.identity is not None and not self.identity_insert:
            raise SqlError(
                544,
                f"Cannot insert explicit value for identity column in table '{self.table.name}' "
                "when IDENTITY_INSERT is set to OFF.",
            )

    def assignments(
        self, given: Sequence[tuple[str, nodes.Node]]
    ) -> list[tuple[e.Column, nodes.Node]]:
        """The columns that SET names; raises Msg 207, 264, 271, 272 or 8102."""
        found: list[tuple[e.Column, nodes.Node]] = []
        for name, node in given:
            column = self._column(name)
            self._check_updatable(column)
            if any(column.id == other.id for other, _ in found):
                raise SqlError(
                    264,
                    f"The column name '{name}' is specified more than once in the SET clause or "
                    "column list of an INSERT.",
                )
            found.append((column, node))
        return found

    def _check_updatable(self, column: e.Column) -> None:
        if column.identity is not None:
            raise SqlError(8102, f"Cannot update identity column '{column.name}'.")
        if column.type.name == "rowversion":
            raise SqlError(272, "Cannot update a timestamp column.")
        self._check_writable(column)
