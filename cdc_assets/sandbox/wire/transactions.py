"""Transaction manager requests: what drivers without autocommit send instead of T-SQL."""

from __future__ import annotations

import itertools
import logging

from cdc_assets.sandbox.results import Failed, Session, SqlError
from cdc_assets.sandbox.wire import tokens
from cdc_assets.sandbox.wire.requests import TransactionCall, TransactionRequest
from cdc_assets.sandbox.wire.tokens import Change, Command, DoneStatus, DoneToken

_log = logging.getLogger(__name__)
_ISOLATION = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
_INTERNAL_ERROR = 50000
_descriptors = itertools.count(1)


class TransactionManager:
    """Runs the requests in a session and numbers its transactions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._descriptor = b""

    def forget(self) -> None:
        """No transaction is open any more."""
        self._descriptor = b""

    def run(self, call: TransactionCall) -> bytes:
        """The whole response to one request."""
        parts: list[bytes] = []
        try:
            command = self._run(call, parts)
        except SqlError as problem:
            return self._failed(parts, problem)
        except ConnectionError:
            raise
        except Exception as problem:  # noqa: BLE001 - logged
            _log.exception("a transaction request failed inside the sandbox")
            text = f"The sandbox failed: {type(problem).__name__}: {problem}"
            return self._failed(parts, SqlError(_INTERNAL_ERROR, text))
        parts.append(tokens.done(DoneToken.DONE, DoneStatus.FINAL, command))
        return b"".join(parts)

    def _run(self, call: TransactionCall, parts: list[bytes]) -> Command:
        if call.kind == TransactionRequest.BEGIN:
            parts.append(self._begin(call.isolation))
            return Command.BEGIN
        if call.kind == TransactionRequest.COMMIT:
            self._session.commit()
            parts.append(self._end(Change.COMMIT_TRANSACTION))
            command = Command.COMMIT
        elif call.kind == TransactionRequest.ROLLBACK:
            if call.name:
                text = (
                    f"Cannot roll back {call.name}. "
                    "No transaction or savepoint of that name was found."
                )
                raise SqlError(6401, text)
            self._session.rollback()
            parts.append(self._end(Change.ROLLBACK_TRANSACTION))
            command = Command.ROLLBACK
        else:
            text = f"The sandbox does not know the transaction request {call.kind.name}."
            raise SqlError(_INTERNAL_ERROR, text)
        if call.begins:
            parts.append(self._begin(call.isolation))
        return command

    def _begin(self, isolation: int) -> bytes:
        if isolation in _ISOLATION:
            text = f"SET TRANSACTION ISOLATION LEVEL {_ISOLATION[isolation]}"
            for result in self._session.execute(text):
                if isinstance(result, Failed):
                    raise result.error
        self._session.begin()
        self._descriptor = next(_descriptors).to_bytes(8, "little")
        new = b"\x08" + self._descriptor
        return tokens.environment_change(Change.BEGIN_TRANSACTION, new, b"\x00")

    def _end(self, change: Change) -> bytes:
        # A transaction begun in T-SQL ends here too; the wire gave it no descriptor.
        descriptor = self._descriptor or bytes(8)
        self._descriptor = b""
        return tokens.environment_change(change, b"\x00", b"\x08" + descriptor)

    @staticmethod
    def _failed(parts: list[bytes], problem: SqlError) -> bytes:
        end = tokens.done(DoneToken.DONE, DoneStatus.ERROR)
        return b"".join((*parts, tokens.error(problem), end))
