"""All procedures by name, and how a call finds its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import (
    adminprocedures,
    catalogprocedures,
    cdcprocedures,
    describing,
    jobprocedures,
    odbcprocedures,
    procedures,
    serverprocedures,
)
from cdc_assets.sandbox.engine.procedures import Argument, Call
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.results import OutputParameters, Result

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.interpreter import Interpreter

_SYSTEM = {
    **procedures.PROCEDURES,
    **odbcprocedures.PROCEDURES,
    **catalogprocedures.PROCEDURES,
    **cdcprocedures.PROCEDURES,
    **describing.PROCEDURES,
    **serverprocedures.PROCEDURES,
    **jobprocedures.PROCEDURES,
}


def run(
    interpreter: Interpreter, name: tuple[str, ...], arguments: Sequence[Argument]
) -> Iterator[Result]:
    """Run a procedure, in another database where the name says so; raises Msg 2812, 911 or 916."""
    *qualifier, last = (part.lower() for part in name)
    schema = qualifier[-1] if qualifier else ""
    found = None
    if schema == "sandbox":
        found = adminprocedures.PROCEDURES.get(last)
    elif schema in ("", "sys", "dbo"):
        found = _SYSTEM.get(last)
    if found is None:
        raise errors.unknown_procedure(".".join(name))
    context = interpreter.context
    home = context.database
    if len(qualifier) == 2 and qualifier[0]:
        context.database = context.find_database(qualifier[0]).name
    try:
        for result in found(Call(interpreter, last, arguments)):
            yield result
            if isinstance(result, OutputParameters):
                return
        yield OutputParameters(0)
    finally:
        context.database = home
