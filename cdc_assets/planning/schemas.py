"""What a change of the source table means for bronze: its columns, their types, what is told.

Bronze's columns never change their type by themselves. A captured type that bronze's holds is
cast to it; one that it does not hold stops the table before any row of it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cdc_assets.contract import Column
from cdc_assets.errors import SchemaChangedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import Command, TableName, folded
from cdc_assets.planning.widening import holds, widened, widening_text

DDL_TEXT_LENGTH_MAX = 4000
"""Characters of a DDL statement that are kept; a longer one is cut."""


def fit(
    bronze: Sequence[Column], captured: Iterable[Column], table: TableName
) -> tuple[Column, ...]:
    """Bronze's columns, and after them the captured ones that it lacks.

    Names match exactly, else ignoring case, as Delta's do: a column whose case changed is the
    same column. Raises `SchemaChangedError` for a type that bronze's cannot hold; its hint is
    what to run to widen it, where Delta can.
    """
    columns = list(bronze)
    unfit = []
    for column in captured:
        held = named(columns, column.name)
        if held is None:
            columns.append(column)
        elif not holds(held.type, column.type):
            unfit.append((held, column.type))
    if unfit:
        raise SchemaChangedError(
            f"{_listed(unfit, 'at the source now, which bronze')} cannot hold; nothing was read",
            where=str(table),
            hint=_way_out(unfit, table),
        )
    return tuple(columns)


Unfit = tuple[Column, str]
"""A column as it is held, and the type that it would have to hold."""


def _listed(unfit: Sequence[Unfit], where: str) -> str:
    return " and ".join(
        f"column {held.name} is {given} {where}'s {held.type}" for held, given in unfit
    )


def _way_out(unfit: Sequence[Unfit], table: TableName) -> str:
    """What a person can do about types that bronze's, or a query's, cannot hold."""
    if not table.delta_uris:
        return "Start the query again: it takes the types as they are then."
    rest = (
        "leave the column out (list the other columns under `columns`), or start the table anew:"
        f" {table.command(Command.RESET)}."
    )
    widening = " ".join(_widening(unfit, uri) for uri in table.delta_uris)
    if not widening.strip():
        return f"Delta can widen bronze's type to none that holds both: {rest}"
    return (
        f"To widen, run with Spark: {widening} Then run it again, with `engine: spark` (or"
        " `auto`, but for a lake that one engine alone may write): from then on only Spark reads"
        f" and writes what was widened, for good. Else {rest}"
    )


def _widening(unfit: Sequence[Unfit], uri: str) -> str:
    """The Spark SQL that makes a table at `uri` hold all; empty where Delta cannot."""
    targets = [(held.name, widened(held.type, given)) for held, given in unfit]
    known = [(name, target) for name, target in targets if target is not None]
    return widening_text(uri, known) if len(known) == len(targets) else ""


def check_silver(silver: Iterable[Column], bronze: Sequence[Column], table: TableName) -> None:
    """Raise `SchemaChangedError` for a column of bronze's whose type silver's cannot hold."""
    pairs = [(held, named(bronze, held.name)) for held in silver]
    unfit = [(held, c.type) for held, c in pairs if c is not None and not holds(held.type, c.type)]
    if unfit:
        text = _widening(unfit, table.silver_uri)
        raise SchemaChangedError(
            f"{_listed(unfit, 'in bronze, which silver')} cannot hold; nothing was applied",
            where=str(table),
            hint=f"Widen it as bronze was, with Spark: {text}"
            if text
            else f"Remove {table.silver_uri}: the next apply makes it anew from bronze.",
        )


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
