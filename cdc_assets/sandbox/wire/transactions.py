"""Transaction manager requests: what drivers without autocommit send instead of T-SQL."""

from __future__ import annotations

import logging

from cdc_assets.sandbox.results import Failed, Session, SqlError
from cdc_assets.sandbox.wire import tokens
from cdc_assets.sandbox.wire.requests import TransactionCall, TransactionRequest
from cdc_assets.sandbox.wire.tokens import Command, DoneStatus, DoneToken

_log = logging.getLogger(__name__)
_ISOLATION = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
_INTERNAL_ERROR = 50000


class TransactionManager:
    """Runs the requests in a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, call: TransactionCall) -> bytes:
        """The whole response to one request."""
        try:
            command = self._run(call)
        except SqlError as problem:
            return self._failed(problem)
        except ConnectionError:
            raise
        except Exception as problem:  # noqa: BLE001 - logged
            _log.exception("a transaction request failed inside the sandbox")
            text = f"The sandbox failed: {type(problem).__name__}: {problem}"
            return self._failed(SqlError(_INTERNAL_ERROR, text))
        return self._changes() + tokens.done(DoneToken.DONE, DoneStatus.FINAL, command)

    def _run(self, call: TransactionCall) -> Command:
        if call.kind == TransactionRequest.BEGIN:
            self._begin(call)
            return Command.BEGIN
        if call.kind == TransactionRequest.SAVE:
            self._session.save(call.name)
            return Command.NONE
        if call.kind == TransactionRequest.COMMIT:
            self._session.commit()
            command = Command.COMMIT
        elif call.kind == TransactionRequest.ROLLBACK:
            self._session.rollback(call.name or None)
            command = Command.ROLLBACK
        else:
            # Propagating and promoting a transaction are the distributed ones.
            raise SqlError(8501, f"MSDTC on server '{tokens.SERVER_NAME}' is unavailable.")
        if call.begins:
            self._begin(call)
        return command

    def _begin(self, call: TransactionCall) -> None:
        if call.isolation in _ISOLATION:
            text = f"SET TRANSACTION ISOLATION LEVEL {_ISOLATION[call.isolation]}"
            for result in self._session.execute(text):
                if isinstance(result, Failed):
                    raise result.error
        self._session.begin(call.next_name or None)

    def _changes(self) -> bytes:
        changes = self._session.transaction_changes()
        return b"".join(tokens.transaction_change(change) for change in changes)

    def _failed(self, problem: SqlError) -> bytes:
        end = tokens.done(DoneToken.DONE, DoneStatus.ERROR)
        return self._changes() + tokens.error(problem) + end
