"""What a change of the source table means for bronze: its columns, their types, what is told.

Bronze's columns never change their type by themselves. A captured type that bronze's holds is
cast to it; one that it does not hold stops the table before any row of it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.errors import SchemaChangedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import folded

DDL_TEXT_LENGTH_MAX = 4000
"""Characters of a DDL statement that are kept; a longer one is cut."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_DIGITS = {"SMALLINT": 5, "INT": 10, "BIGINT": 19}
_HELD = {
    "SMALLINT": {"BOOLEAN"},
    "INT": {"BOOLEAN", "SMALLINT"},
    "BIGINT": {"BOOLEAN", "SMALLINT", "INT"},
    "FLOAT": {"SMALLINT"},
    "DOUBLE": {"SMALLINT", "INT", "FLOAT"},
    "TIMESTAMP_NTZ": {"DATE"},
}


def holds(held: str, given: str) -> bool:
    """Whether every value of the type `given` is one of the type `held`; Spark SQL's types."""
    if held == given or given in _HELD.get(held, ()):
        return True
    decimal = _DECIMAL.fullmatch(held)
    if decimal is None:
        return False
    precision, scale = int(decimal[1]), int(decimal[2])
    if (other := _DECIMAL.fullmatch(given)) is not None:
        return int(other[2]) <= scale and int(other[1]) - int(other[2]) <= precision - scale
    return given in _DIGITS and _DIGITS[given] <= precision - scale


def fit(bronze: Sequence[Column], captured: Iterable[Column], *, where: str) -> tuple[Column, ...]:
    """Bronze's columns, and after them the captured ones that it lacks.

    Names match exactly, else ignoring case, as Delta's do: a column whose case changed is the
    same column. Raises `SchemaChangedError` for a type that bronze's cannot hold.
    """
    columns = list(bronze)
    for column in captured:
        held = named(columns, column.name)
        if held is None:
            columns.append(column)
        elif not holds(held.type, column.type):
            raise SchemaChangedError(
                f"column {held.name} is {column.type} at the source now, which bronze's"
                f" {held.type} cannot hold; nothing was read",
                where=where,
                hint="To widen it, set delta.enableTypeWidening on bronze and silver and alter"
                " the column there with Spark, then run again: that moves both to the engine"
                " `spark` for good. Else leave it out (list the other columns under `columns`),"
                " or start the table anew.",
            )
    return tuple(columns)


def named(columns: Iterable[Column], name: str) -> Column | None:
    """The column of that name: exactly, else ignoring case."""
    alike = None
    for column in columns:
        if column.name == name:
            return column
        if folded(column.name) == folded(name):
            alike = column
    return alike


@dataclass(frozen=True, slots=True)
class DdlChange:
    """A DDL statement on a captured table: its commit, its time in UTC, and its text.

    `column_update` says that the change table's column got the new type, too.
    """

    instance: str
    lsn: Lsn
    at: datetime
    command: str
    column_update: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For a commit's `userMetadata` and an event's detail."""
        return {
            "instance": self.instance,
            "lsn": str(self.lsn),
            "at": self.at.isoformat(),
            "command": self.command,
            "column_update": self.column_update,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> DdlChange:
        """Read it back; raises ValueError, KeyError or TypeError for anything else."""
        return cls(
            str(value["instance"]),
            Lsn.parse(value["lsn"]),
            datetime.fromisoformat(value["at"]),
            str(value["command"]),
            bool(value["column_update"]),
        )

    def __str__(self) -> str:
        return f"The source table was changed at {self.at} UTC: {self.command}"


def each_once(changes: Iterable[DdlChange]) -> tuple[DdlChange, ...]:
    """In the order of the log; two instances of one table tell of the same statement."""
    found: dict[tuple[Lsn, str], DdlChange] = {}
    for change in changes:
        found.setdefault((change.lsn, change.command), change)
    return tuple(found[key] for key in sorted(found))


def check_allowed(changes: Sequence[DdlChange], *, where: str) -> None:
    """Raise `SchemaChangedError` for any change: the policy `fail`."""
    if changes:
        raise SchemaChangedError(
            f"the source table was changed at {changes[0].at} UTC ({changes[0].command}), and"
            " the settings say `schema_change_policy: fail`; nothing was read",
            where=where,
            hint="When it is as wanted, run once with `schema_change_policy: continue`.",
        )
