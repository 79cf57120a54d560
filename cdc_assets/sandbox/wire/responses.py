"""What the engine yields, as the tokens of one response."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cdc_assets.sandbox.results import (
    DatabaseChanged,
    Failed,
    Message,
    OutputParameters,
    Parameter,
    Result,
    ResultColumn,
    ResultSet,
    RowCount,
    SqlError,
    SqlType,
    TransactionChange,
)
from cdc_assets.sandbox.wire import tokens
from cdc_assets.sandbox.wire.encode import encode_rows
from cdc_assets.sandbox.wire.errors import Attention
from cdc_assets.sandbox.wire.packets import PacketWriter
from cdc_assets.sandbox.wire.tokens import Command, DoneStatus, DoneToken
from cdc_assets.sandbox.wire.values import encode_value

_log = logging.getLogger(__name__)
_INTERNAL_ERROR = 50000
_STATEMENT_TERMINATED = 3621
_COMMANDS: dict[str, Command] = {
    "": Command.NONE,
    "SELECT": Command.SELECT,
    "SELECT INTO": Command.SELECT_INTO,
    "INSERT": Command.INSERT,
    "UPDATE": Command.UPDATE,
    "DELETE": Command.DELETE,
    "MERGE": Command.MERGE,
    "BEGIN": Command.BEGIN,
    "COMMIT": Command.COMMIT,
    "ROLLBACK": Command.ROLLBACK,
}


@dataclass(slots=True)
class _Done:
    """A DONE that waits to know whether another follows."""

    token: DoneToken
    status: int
    command: int = Command.NONE
    rows: int = 0


@dataclass(frozen=True, slots=True)
class ResponseHooks:
    """What a response asks of its connection."""

    interrupted: Callable[[], bool]
    rows_sent: Callable[[int, tuple[ResultColumn, ...]], None]
    database_changed: Callable[[str], str]
    """Takes the new database, returns the one before."""
    transaction_changes: Callable[[], Sequence[TransactionChange]]


class ResponseWriter:
    """Writes results as they come; stops with `Attention` on a token boundary."""

    def __init__(self, writer: PacketWriter, hooks: ResponseHooks) -> None:
        self._writer = writer
        self._hooks = hooks
        self._pending: _Done | None = None
        self._failed = False
        self._cut = False
        self._status = 0
        self._outputs: list[tuple[str, SqlType, object]] = []

    def write_batch(self, results: Callable[[], Iterator[Result]]) -> None:
        """The response of a SQL batch, up to its last DONE."""
        self._write_results(results, DoneToken.DONE)
        self._flush_done(more=False)

    def write_procedure(
        self,
        results: Callable[[], Iterator[Result]],
        parameters: tuple[Parameter, ...],
        *,
        last: bool,
    ) -> None:
        """The response of one RPC: results, return status, output parameters, DONEPROC."""
        self._write_results(results, DoneToken.DONE_IN_PROCEDURE)
        if self._pending is not None:
            self._flush_done(more=True)
        parts = [tokens.return_status(self._status)]
        parts += _return_values(self._outputs, parameters)
        self._write(b"".join(parts))
        status = DoneStatus.ERROR if self._failed else DoneStatus.FINAL
        self._pending = _Done(DoneToken.DONE_PROCEDURE, status, Command.PROCEDURE)
        self._flush_done(more=not last)

    def write_error(self, problem: SqlError, token: DoneToken = DoneToken.DONE) -> None:
        """An error that ends the response."""
        self._write(tokens.error(problem))
        self._pending = _Done(token, DoneStatus.ERROR)
        self._flush_done(more=False)

    def _write_results(self, results: Callable[[], Iterator[Result]], token: DoneToken) -> None:
        iterator: Iterator[Result] | None = None
        try:
            iterator = results()
            for result in iterator:
                self._stop_if_interrupted()
                self._write_result(result, token)
            # The engine may end quietly where it was cancelled.
            self._stop_if_interrupted()
        except ConnectionAbortedError:
            # The rows before an injected drop have left, and exactly they.
            self._writer.flush()
            raise
        except (Attention, ConnectionError):
            raise
        except Exception as problem:  # noqa: BLE001 - logged and sent to the client
            self._stop_if_interrupted()
            self._fail(problem, token)
        finally:
            _close(iterator)

    def _write_result(self, result: Result, token: DoneToken) -> None:
        if isinstance(result, Message):
            self._end_before(result)
            self._write(tokens.info(result))
            return
        if isinstance(result, DatabaseChanged):
            self._flush_done(more=True)
            before = self._hooks.database_changed(result.database)
            self._write(tokens.database_change(result.database, before))
            return
        if isinstance(result, OutputParameters):
            self._write_outputs(result, token)
            return
        if isinstance(result, Failed):
            self._fail(result.error, token)
            return
        self._flush_done(more=True)
        self._failed = False
        self._write_transaction_changes()
        command = _COMMANDS[result.command]
        if isinstance(result, RowCount):
            status = DoneStatus.FINAL if result.rows is None else DoneStatus.COUNT
            self._pending = _Done(token, status, command, result.rows or 0)
            return
        rows = self._write_rows(result)
        self._pending = _Done(token, DoneStatus.COUNT, command, rows)

    def _end_before(self, message: Message) -> None:
        """End the statement before the one that tells something; 3621 belongs to its error."""
        if message.number != _STATEMENT_TERMINATED:
            self._flush_done(more=True)

    def _write_transaction_changes(self) -> None:
        for change in self._hooks.transaction_changes():
            self._write(tokens.transaction_change(change))

    def _write_rows(self, result: ResultSet) -> int:
        """Write a result set; where its rows end in an error, the engine tells what follows."""
        total = 0
        self._write(tokens.column_metadata(result.columns))
        try:
            for batch in result.batches:
                for chunk in encode_rows(result.columns, batch):
                    self._stop_if_interrupted()
                    self._write(chunk.data)
                    total += chunk.rows
                    self._hooks.rows_sent(chunk.rows, result.columns)
        except SqlError:
            self._cut = True
        finally:
            _close(result.batches)
        return total

    def _write_outputs(self, result: OutputParameters, token: DoneToken) -> None:
        if token == DoneToken.DONE_IN_PROCEDURE:
            self._status = result.status
            self._outputs += result.values
            return
        # EXEC inside a batch: its values went to variables, the client sees the status.
        self._flush_done(more=True)
        self._write(tokens.return_status(result.status))
        self._pending = _Done(DoneToken.DONE_PROCEDURE, DoneStatus.FINAL, Command.PROCEDURE)

    def _fail(self, problem: Exception, token: DoneToken) -> None:
        if self._cut:
            # One DONE for the rows and their error: an early one would call the rows complete.
            self._pending = None
        self._flush_done(more=True)
        self._write_transaction_changes()
        if isinstance(problem, SqlError):
            shown = problem
        else:
            _log.error("a request failed inside the sandbox", exc_info=problem)
            text = f"The sandbox failed: {type(problem).__name__}: {problem}"
            shown = SqlError(_INTERNAL_ERROR, text)
        self._write(tokens.error(shown))
        self._failed = True
        self._status = shown.number
        self._pending = _Done(token, DoneStatus.ERROR)

    def _flush_done(self, *, more: bool) -> None:
        pending, self._pending = self._pending, None
        self._cut = False
        if pending is None:
            if more:
                return
            pending = _Done(DoneToken.DONE, DoneStatus.FINAL)
        status = pending.status | (DoneStatus.MORE if more else 0)
        self._write(tokens.done(pending.token, status, pending.command, pending.rows))

    def _write(self, data: bytes | memoryview) -> None:
        self._writer.write(data)

    def _stop_if_interrupted(self) -> None:
        if self._hooks.interrupted():
            # What came before is complete, and its client counts on being told so.
            self._flush_done(more=True)
            raise Attention


def _return_values(
    outputs: Iterable[tuple[str, SqlType, object]], parameters: tuple[Parameter, ...]
) -> Iterator[bytes]:
    """RETURNVALUE tokens; clients find a parameter by its place in the call."""
    names = [parameter.name.lower() for parameter in parameters]
    places = [place for place, parameter in enumerate(parameters) if parameter.output]
    for position, (name, sql_type, value) in enumerate(outputs):
        if name.lower() in names:
            ordinal = names.index(name.lower())
        else:
            # Given by position: the procedure's names are not in the call.
            ordinal = places[position] if position < len(places) else position
        yield tokens.return_value(ordinal, name, sql_type, encode_value(sql_type, value))


def _close(iterator: object) -> None:
    close = getattr(iterator, "close", None)
    if close is None:
        return
    # What a generator says while it is being given up concerns nobody any more.
    with contextlib.suppress(Exception):
        close()
