"""What the language side hands to the wire side: types, result sets, counts, errors.

The wire knows nothing of SQL and the engine nothing of TDS; both know this page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

MAX_LENGTH = -1
"""`SqlType.length` of a `(max)` type."""

DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"


@dataclass(frozen=True, slots=True)
class SqlType:
    """An exact T-SQL type, as COLMETADATA and the catalogue need it.

    `length` is in characters for character types and bytes for binary ones, `MAX_LENGTH` for
    `(max)`; `precision` and `scale` as T-SQL counts them (`scale` alone for time types).

    The Arrow type a result column of it must have (the encoder casts nothing):

    * bit: bool; tinyint: uint8; smallint, int, bigint: int16, int32, int64;
      real, float: float32, float64
    * decimal, numeric, money, smallmoney: decimal128(p, s), money (19, 4), smallmoney (10, 4)
    * date: date32; time(s): int64, 100 ns since midnight
    * datetime, smalldatetime, datetime2(s): int64, 100 ns ticks since 0001-01-01
    * datetimeoffset(s): struct<ticks: int64 (UTC, as datetime2), offset_minutes: int16>
    * char, varchar, nchar, nvarchar, text, ntext, xml, uniqueidentifier: string
    * binary, varbinary, image, rowversion: binary
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    collation: str | None = None

    def __str__(self) -> str:
        """The type as T-SQL writes it: `nvarchar(64)`, `decimal(15,2)`, `datetime2(7)`."""
        if self.length is not None:
            return f"{self.name}({'max' if self.length == MAX_LENGTH else self.length})"
        if self.precision is not None:
            return f"{self.name}({self.precision},{self.scale or 0})"
        if self.scale is not None:
            return f"{self.name}({self.scale})"
        return self.name


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result set, as COLMETADATA names it."""

    name: str
    type: SqlType
    nullable: bool = True
    hidden: bool = False
    """A driver keeps it to itself: a cursor's row status."""


Command = Literal[
    "",
    "SELECT",
    "SELECT INTO",
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
]
"""The statement a result is of, where drivers tell them apart by it."""


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Rows, streamed; `batches` is consumed once, and may raise `SqlError` in the middle.

    What becomes of such an error the session tells when it is asked for the next result: it
    raises it, yields it as `Failed`, or goes on because a CATCH block took it.
    """

    columns: tuple[ResultColumn, ...]
    batches: Iterator[pa.RecordBatch]
    command: Command = "SELECT"


@dataclass(frozen=True, slots=True)
class RowCount:
    """A statement without rows; `rows` is None where SQL Server counts nothing (DDL, SET)."""

    rows: int | None
    command: Command = ""


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """A session's outermost transaction began or ended; drivers keep its number."""

    kind: Literal["begin", "commit", "rollback"]
    number: int
    """Unique in its process."""


@dataclass(frozen=True, slots=True)
class Message:
    """An informational message (INFO token), such as 5701 or PRINT's 0."""

    number: int
    text: str
    severity: int = 0
    state: int = 1


@dataclass(frozen=True, slots=True)
class DatabaseChanged:
    """`USE` took effect: the wire sends the ENVCHANGE and INFO 5701."""

    database: str


@dataclass(frozen=True, slots=True)
class OutputParameters:
    """Return status and output parameters of a procedure."""

    status: int
    values: tuple[tuple[str, SqlType, object], ...] = ()


class SqlError(Exception):
    """An error the client sees: SQL Server's number, text, severity and state."""

    def __init__(self, number: int, text: str, severity: int = 16, state: int = 1) -> None:
        super().__init__(number, text, severity, state)
        self.number = number
        self.text = text
        self.severity = severity
        self.state = state
        self.line: int | None = None
        """The line of the batch where the statement begins; None where no statement failed."""

    def __str__(self) -> str:
        return f"Msg {self.number}, Level {self.severity}, State {self.state}: {self.text}"


@dataclass(frozen=True, slots=True)
class Failed:
    """A statement failed and the batch goes on.

    Right after a result set whose batches raised, it is that result set's end.
    """

    error: SqlError


Result = ResultSet | RowCount | Message | DatabaseChanged | OutputParameters | Failed


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an RPC: its name with `@` (empty when positional), type and value.

    Values are str, int, float, bool, Decimal, bytes, date, UUID and None; times cross as
    T-SQL text (`2026-11-30 10:00:00.1234567`), so that no digit is lost.
    """

    name: str
    type: SqlType
    value: object
    output: bool = False


class Session(Protocol):
    """One logged-in connection. Used by one thread at a time."""

    database: str

    def begin_request(self) -> None:
        """A request begins: from here to its end a `cancel` is meant for it, and no earlier one."""
        ...

    def execute(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Result]:
        """Run a batch of T-SQL; with `parameters`, as sp_executesql does.

        Raises `SqlError` where one ends the batch; others come as `Failed`.
        """
        ...

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Result]:
        """Run a procedure by name, as an RPC does."""
        ...

    def begin(self, name: str | None = None) -> None:
        """Begin a transaction (transaction manager request 5)."""
        ...

    def commit(self) -> None:
        """Commit it (7). Raises `SqlError` 3902 without one."""
        ...

    def rollback(self, name: str | None = None) -> None:
        """Roll it back (8), or to the savepoint of that name.

        Raises `SqlError` 3903 without a transaction.
        """
        ...

    def save(self, name: str) -> None:
        """Set a savepoint (9). Raises `SqlError` 628 without a transaction."""
        ...

    def transaction_changes(self) -> Sequence[TransactionChange]:
        """What began and ended since the last call, however it came about."""
        ...

    def reset(self, *, keep_transaction: bool = False) -> None:
        """Return to the state after login (packet status RESETCONNECTION)."""
        ...

    def cancel(self) -> None:
        """Stop the running statement soon; called from another thread (attention)."""
        ...

    def close(self) -> None:
        """Roll back and give up everything held."""
        ...


class Backend(Protocol):
    """The engine side of the server."""

    def login(self, user: str, password: str, database: str, application: str) -> Session:
        """Check the login and open a session.

        Raises `SqlError` 18456 (wrong login) or 4060 (no such database).
        """
        ...

    def rows_sent(self, session: Session, rows: int, columns: Sequence[ResultColumn]) -> None:
        """Called by the wire as rows leave, for the counters.

        It, and a result's batches, raise `ConnectionAbortedError` where an injected fault says that
        the connection dies here.
        """
        ...
