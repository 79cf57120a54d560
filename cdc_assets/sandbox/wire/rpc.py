"""The procedures a driver calls to run statements, prepared ones among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdc_assets.sandbox.results import (
    OutputParameters,
    Parameter,
    Result,
    Session,
    SqlError,
    SqlType,
)
from cdc_assets.sandbox.wire.cursors import Cursors, Places
from cdc_assets.sandbox.wire.declarations import Declaration, bind, parse_declarations
from cdc_assets.sandbox.wire.limits import MAX_PREPARED_STATEMENTS
from cdc_assets.sandbox.wire.requests import ProcedureCall

_HANDLE_TYPE = SqlType("int")


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A prepared statement, or a prepared procedure call."""

    text: str
    declared: tuple[Declaration, ...]
    is_procedure: bool = False


class StatementRunner:
    """Runs RPCs in a session and remembers what it prepared."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._prepared: dict[int, _Prepared] = {}
        self._next_handle = 1
        self._cursors = Cursors()
        self._procedures = {
            **self._cursors.procedures,
            "sp_cursoropen": self._open_cursor,
            "sp_cursorprepare": self._prepare,
            "sp_cursorprepexec": self._prepare_and_open,
            "sp_cursorexecute": self._open_prepared,
            "sp_cursorunprepare": self._unprepare,
            "sp_executesql": self._execute_text,
            "sp_prepare": self._prepare,
            "sp_prepexec": self._prepare_and_execute,
            "sp_prepexecrpc": self._prepare_and_call,
            "sp_execute": self._execute_prepared,
            "sp_unprepare": self._unprepare,
        }

    def forget(self) -> None:
        """Drop everything prepared, as a connection reset does."""
        self._prepared.clear()
        self._cursors.forget()

    def run(self, call: ProcedureCall) -> Iterator[Result]:
        """The results of one RPC."""
        name = call.name.lower().replace("[", "").replace("]", "")
        run = self._procedures.get(name.removeprefix("sys."))
        if run is None:
            return self._session.call(call.name, call.parameters)
        return run(call.parameters)

    def _execute_text(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        text = _text(parameters, 0, "sp_executesql")
        declared: tuple[Declaration, ...] = ()
        if len(parameters) > 1 and parameters[1].value is not None:
            declared = parse_declarations(_text(parameters, 1, "sp_executesql"))
        yield from self._session.execute(text, bind(declared, parameters[2:]))

    def _prepare(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        yield self._handle_of(parameters, self._remember(parameters))

    def _prepare_and_execute(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        self._drop(parameters[0].value if parameters else None)
        handle = self._remember(parameters)
        # The handle goes out with the other output parameters, also where the statement fails.
        yield self._handle_of(parameters, handle)
        prepared = self._prepared[handle]
        yield from self._session.execute(prepared.text, bind(prepared.declared, parameters[3:]))

    def _prepare_and_call(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        self._drop(parameters[0].value if parameters else None)
        prepared = _Prepared(_text(parameters, 1, "sp_prepexecrpc"), (), is_procedure=True)
        yield self._handle_of(parameters, self._store(prepared))
        yield from self._session.call(prepared.text, parameters[2:])

    def _open_cursor(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursoropen cursor, stmt [, scrollopt, ccopt, rowcount [, paramdef, values …]]."""
        declared: tuple[Declaration, ...] = ()
        if len(parameters) > 5:
            declared = parse_declarations(_text(parameters, 5, "sp_cursoropen"))
        values = bind(declared, parameters[6:])
        results = self._session.execute(_text(parameters, 1, "sp_cursoropen"), values)
        yield from self._cursors.open(results, parameters, Places(cursor=0, options=2))

    def _prepare_and_open(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursorprepexec handle, cursor, paramdef, stmt, scrollopt, ccopt, rowcount, values."""
        self._drop(parameters[0].value if parameters else None)
        handle = self._remember(parameters[1:])
        yield self._handle_of(parameters, handle)
        prepared = self._prepared[handle]
        values = bind(prepared.declared, parameters[7:])
        results = self._session.execute(prepared.text, values)
        yield from self._cursors.open(results, parameters, Places(cursor=1, options=4))

    def _open_prepared(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursorexecute handle, cursor, scrollopt, ccopt, rowcount, values …"""
        prepared = self._known(parameters)
        values = bind(prepared.declared, parameters[5:])
        results = self._session.execute(prepared.text, values)
        yield from self._cursors.open(results, parameters, Places(cursor=1, options=2))

    def _known(self, parameters: tuple[Parameter, ...]) -> _Prepared:
        handle = parameters[0].value if parameters else None
        prepared = self._prepared.get(handle) if isinstance(handle, int) else None
        if prepared is None:
            raise SqlError(8179, f"Could not find prepared statement with handle {handle}.")
        return prepared

    def _execute_prepared(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        prepared = self._known(parameters)
        if prepared.is_procedure:
            yield from self._session.call(prepared.text, parameters[1:])
        else:
            values = bind(prepared.declared, parameters[1:])
            yield from self._session.execute(prepared.text, values)

    def _unprepare(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        self._drop(parameters[0].value if parameters else None)
        yield from ()

    def _remember(self, parameters: tuple[Parameter, ...]) -> int:
        declared: tuple[Declaration, ...] = ()
        if len(parameters) > 1 and parameters[1].value is not None:
            declared = parse_declarations(_text(parameters, 1, "sp_prepare"))
        return self._store(_Prepared(_text(parameters, 2, "sp_prepare"), declared))

    def _store(self, prepared: _Prepared) -> int:
        if len(self._prepared) >= MAX_PREPARED_STATEMENTS:
            text = (
                "There is insufficient system memory in resource pool 'default' to run this query."
            )
            raise SqlError(701, text, severity=17)
        handle = self._next_handle
        self._next_handle += 1
        self._prepared[handle] = prepared
        return handle

    def _drop(self, handle: object) -> None:
        if isinstance(handle, int):
            self._prepared.pop(handle, None)

    @staticmethod
    def _handle_of(parameters: tuple[Parameter, ...], handle: int) -> OutputParameters:
        return OutputParameters(0, ((parameters[0].name, _HANDLE_TYPE, handle),))


def _text(parameters: tuple[Parameter, ...], position: int, procedure: str) -> str:
    value = parameters[position].value if position < len(parameters) else None
    if not isinstance(value, str):
        text = f"Procedure expects parameter {position + 1} of {procedure} to be of type ntext."
        raise SqlError(214, text)
    return value
