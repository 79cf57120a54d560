"""All procedures by name, and how a call finds its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import (
    adminprocedures,
    catalogprocedures,
    cdcprocedures,
    odbcprocedures,
    procedures,
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
}


def run(
    interpreter: Interpreter, name: tuple[str, ...], arguments: Sequence[Argument]
) -> Iterator[Result]:
    """Run a procedure; raises Msg 2812 for an unknown one."""
    *qualifier, last = (part.lower() for part in name)
    schema = qualifier[-1] if qualifier else ""
    found = None
    if schema == "sandbox":
        found = adminprocedures.PROCEDURES.get(last)
    elif schema in ("", "sys", "dbo"):
        found = _SYSTEM.get(last)
    if found is None:
        raise errors.unknown_procedure(".".join(name))
    for result in found(Call(interpreter, last, arguments)):
        yield result
        if isinstance(result, OutputParameters):
            return
    yield OutputParameters(0)
