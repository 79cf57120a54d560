"""What an error does to its statement, its batch and its transaction.

The rules are SQL Server's (SET XACT_ABORT, TRY…CATCH and XACT_STATE in its documentation); which
errors end more than their statement is nowhere listed, and follows what Erland Sommarskog found
("Error and Transaction Handling in SQL Server", part two).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.results import SqlError

STATEMENT_TERMINATED = 3621
UNCOMMITTABLE = 3930
ATTENTION = 0
SYNTAX_SEVERITY = 15

# Failed conversions, a deadlock's victim, a lost snapshot, a write in a doomed transaction.
_ENDS_BATCH_AND_TRANSACTION = frozenset({241, 242, 244, 245, 248, 1205, 3930, 3960, 8114})
_ENDS_BATCH = frozenset({217, 2714, 3931, 3952})
# What SQL Server finds while it compiles, so that the rest of the batch has no plan either.
_ENDS_SCOPE = frozenset(
    {116, 120, 121, 145, 147, 164, 205, 206, 207, 208, 209, 213, 257, 263, 264, 271, 272, 273}
    | {402, 447, 468, 529, 911, 916, 1060, 1087, 4104, 8102, 8116, 8117, 8120, 8154}
    | {10704, 10709, 40515}
)


class Reach(Enum):
    """How much of the batch an error ends."""

    STATEMENT = 1
    SCOPE = 2
    """The batch or dynamic text that the statement stands in; CATCH blocks of the same one too."""
    BATCH = 3
    """Everything that the client sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an error ends, and whether the open transaction can still commit."""

    reach: Reach
    dooms: bool


class Abort(Exception):  # noqa: N818 - it is on its way and not an error of ours
    """An error that ends more than its statement, on its way to whoever takes it."""

    def __init__(self, error: SqlError, reach: Reach) -> None:
        super().__init__(error, reach)
        self.error = error
        self.reach = reach


def outcome(error: SqlError, statement: s.Statement, *, xact_abort: bool) -> Outcome:
    """What an error of a statement does."""
    if isinstance(statement, s.Raise):
        # RAISERROR alone takes no notice of XACT_ABORT; THROW always ends the batch.
        if statement.kind == "RAISERROR":
            return Outcome(Reach.STATEMENT, dooms=False)
        return Outcome(Reach.BATCH, dooms=xact_abort)
    if error.number == ATTENTION:
        return Outcome(Reach.BATCH, dooms=xact_abort)
    if error.number in _ENDS_BATCH_AND_TRANSACTION:
        return Outcome(Reach.BATCH, dooms=True)
    if error.number in _ENDS_BATCH:
        return Outcome(Reach.BATCH, dooms=xact_abort)
    if error.severity == SYNTAX_SEVERITY or error.number in _ENDS_SCOPE:
        return Outcome(Reach.SCOPE, dooms=xact_abort)
    return Outcome(Reach.BATCH if xact_abort else Reach.STATEMENT, dooms=xact_abort)


def uncommittable() -> SqlError:
    """Msg 3930: a doomed transaction was asked to write or to commit."""
    return SqlError(
        UNCOMMITTABLE,
        "The current transaction cannot be committed and cannot support operations that write to "
        "the log file. Roll back the transaction.",
    )


def no_way_back() -> SqlError:
    """Msg 3931: a doomed transaction was asked to go back to a savepoint."""
    return SqlError(
        3931,
        "The current transaction cannot be committed and cannot be rolled back to a savepoint. "
        "Roll back the entire transaction.",
    )


def left_uncommittable() -> SqlError:
    """Msg 3998: a batch ended with a doomed transaction open."""
    return SqlError(
        3998,
        "Uncommittable transaction is detected at the end of the batch. The transaction is rolled "
        "back.",
    )


def no_snapshots(database: str) -> SqlError:
    """Msg 3952: a database that allows no snapshots, under the isolation level SNAPSHOT."""
    return SqlError(
        3952,
        f"Snapshot isolation transaction failed accessing database '{database}' because snapshot "
        "isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot "
        "isolation.",
    )
