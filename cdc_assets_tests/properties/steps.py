"""What can happen in a random history, as values that print as what made them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.faults import FaultPoint
from cdc_assets_tests.properties.model import Table
from cdc_assets_tests.properties.statements import Statement


@dataclass(frozen=True)
class Transaction:
    """One transaction of the source, rolled back perhaps."""

    statements: tuple[Statement, ...]
    rolled_back: bool = False


@dataclass(frozen=True)
class Capture:
    """Capture moves all that is committed; with `idle` it then writes an idle entry."""

    idle: bool = False


@dataclass(frozen=True)
class Clock:
    """The server's clock is moved by so many seconds, back perhaps."""

    seconds: float


@dataclass(frozen=True)
class Clean:
    """Cleanup takes all that capture has moved of a table, but for the newest commit's."""

    table: int


@dataclass(frozen=True)
class Switch:
    """A table gets a column, and a second capture instance that has it."""

    table: int


@dataclass(frozen=True)
class Disable:
    """The old instance of a table goes, if the product has told that it needs it no more."""

    table: int


Happening = Transaction | Capture | Clock | Clean | Switch | Disable
"""What happens at the source."""


class End(StrEnum):
    """How a run ends at a point, where it does not just do something there."""

    CRASH = "crash"
    """By an exception that nothing catches: quick, in the test's own process."""
    KILL = "kill"
    """By SIGKILL, in a process of its own."""


class Moment(StrEnum):
    """A place in an apply where there is no fault point, since nothing durable happened."""

    LOOKED = "looked"
    """Silver's version is known, and nothing else is read."""
    PINNED = "pinned"
    """Bronze is pinned at a version."""


@dataclass(frozen=True)
class At:
    """What happens when a run reaches a point for the nth time, if it does: an end, or steps."""

    point: FaultPoint | Moment
    what: End | tuple[Step, ...]
    nth: int = 1


@dataclass(frozen=True)
class Beneath:
    """A transaction of the source while the product reads a table, before its nth statement.

    `changes`: of its change table; else of the table itself. `captured`: capture moves it at once.
    """

    table: int
    transaction: Transaction
    nth: int = 0
    changes: bool = False
    captured: bool = False


@dataclass(frozen=True)
class Sync:
    """One sync of all tables; with a table a person's new snapshot of that."""

    resnapshot: int | None = None
    at: At | None = None
    beneath: Beneath | None = None
    engine: str = ""


@dataclass(frozen=True)
class Backfill:
    """Waves of a table's open chunked snapshot; all that are left without a number."""

    table: int
    waves: int | None = None
    at: At | None = None
    beneath: Beneath | None = None
    engine: str = ""


@dataclass(frozen=True)
class Apply:
    """One apply of all tables."""

    at: At | None = None
    engine: str = ""


Work = Sync | Backfill | Apply
"""What the product does."""

Step = Happening | Work


@dataclass(frozen=True)
class Limits:
    """The product's settings that cut its work: connections, commits of a batch, rows ranked."""

    partitions: int
    commits_max: int | None
    rank_rows_max: int


@dataclass(frozen=True)
class History:
    """Tables, how the product is set up, and what happens."""

    seed: int
    tables: tuple[Table, ...]
    first_rows: tuple[Statement, ...]
    limits: Limits
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        head = [
            f"seed {self.seed}, {self.limits}",
            *(f"  {number}: {table}" for number, table in enumerate(self.tables)),
            *(f"  {statement}" for statement in self.first_rows),
        ]
        return "\n".join([*head, *(f"{n:3} {step}" for n, step in enumerate(self.steps))])
