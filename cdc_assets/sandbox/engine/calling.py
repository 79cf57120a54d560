"""EXEC: arguments out of a batch's variables, and output parameters back into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import procedures, registry
from cdc_assets.sandbox.language import nodes, values
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.scope import Scope
from cdc_assets.sandbox.results import OutputParameters, Result

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.interpreter import Interpreter


class Caller:
    """Runs EXEC statements for an interpreter."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.session = interpreter.session
        self.context = interpreter.context

    def execute(self, statement: s.Execute) -> Iterator[Result]:
        """EXEC of a procedure or a text; output parameters go into the batch's variables."""
        if statement.dynamic is not None:
            yield from self.interpreter.dynamic(str(self.interpreter.text(statement.dynamic)), {})
            return
        arguments = [self._argument(argument) for argument in statement.arguments]
        outputs = {
            a.name.lower() or str(i): a.value.name
            for i, a in enumerate(statement.arguments)
            if a.output and isinstance(a.value, nodes.Variable)
        }
        self.context.error_number = 0
        for result in registry.run(self.interpreter, statement.procedure, arguments):
            if isinstance(result, OutputParameters):
                self._take_outputs(result, outputs, statement.status)
            else:
                yield result

    def _argument(self, argument: s.Argument) -> procedures.Argument:
        if isinstance(argument.value, nodes.Constant) and argument.value.kind == "default":
            return procedures.Argument(argument.name, values.null(), omitted=True)
        bound = self.session.binder().value(argument.value, Scope())
        return procedures.Argument(argument.name, bound, output=argument.output)

    def _take_outputs(
        self, result: OutputParameters, outputs: dict[str, str], status: str | None
    ) -> None:
        if status is not None:
            self.context.variables[status.lower()] = values.integer(result.status)
        for place, (name, kind, value) in enumerate(result.values):
            variable = outputs.get(name.lower()) or outputs.get(str(place))
            if variable is not None:
                known = self.context.variables[variable.lower()].type
                self.context.variables[variable.lower()] = (
                    convert(values.of_python(value, kind), known)
                    if known != kind
                    else values.of_python(value, kind)
                )
