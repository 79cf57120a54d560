"""EXEC and RPC: procedures by name, their arguments, and the ones every server has."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine import systypes
from cdc_assets.sandbox.engine.metadata import named_object
from cdc_assets.sandbox.language import errors, types, values
from cdc_assets.sandbox.language.convert import convert
from cdc_assets.sandbox.language.folding import attempt
from cdc_assets.sandbox.language.queries import QueryParser
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import (
    MAX_LENGTH,
    OutputParameters,
    Parameter,
    Result,
    SqlError,
    SqlType,
)

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.interpreter import Interpreter

Run = Callable[["Call"], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as given: `name` with its `@`, empty when positional."""

    name: str
    value: Value
    output: bool = False
    omitted: bool = False


class Call:
    """A procedure call: its arguments by name or place, as Python values."""

    def __init__(self, interpreter: Interpreter, name: str, arguments: Sequence[Argument]) -> None:
        self.interpreter = interpreter
        self.session = interpreter.session
        self.context = interpreter.context
        self.name = name
        self.arguments = arguments

    def declare(self, *names: str) -> None:
        """Check the arguments against the procedure's parameters; raises Msg 8144 or 8145."""
        if len(self.arguments) > len(names):
            raise SqlError(
                8144, f"Procedure or function {self.name} has too many arguments specified."
            )
        known = {name.lower() for name in names}
        placed: dict[str, Argument] = {}
        for place, argument in enumerate(self.arguments):
            key = argument.name.lower() or names[place].lower()
            if key not in known:
                raise SqlError(
                    8145, f"{argument.name} is not a parameter for procedure {self.name}."
                )
            if not argument.omitted:
                placed[key] = argument
        self._placed = placed

    def given(self, name: str) -> bool:
        """Whether the caller gave it."""
        return name.lower() in self._placed

    def _constant(self, name: str, kind: SqlType) -> object:
        argument = self._placed.get(name.lower())
        if argument is None:
            return None
        return attempt(convert(argument.value, kind))

    def text(self, name: str, default: str | None = None) -> str | None:
        """A string argument."""
        value = self._constant(name, types.nvarchar(MAX_LENGTH))
        return default if value is None else str(value)

    def required(self, name: str) -> str:
        """A string argument that must be there; raises Msg 201."""
        value = self.text(name)
        if value is None:
            raise SqlError(
                201,
                f"Procedure or function '{self.name}' expects parameter '{name}', which was not "
                "supplied.",
                16,
                4,
            )
        return value

    def number(self, name: str, default: int | None = None) -> int | None:
        """An integer argument."""
        value = self._constant(name, types.BIGINT)
        return default if value is None else int(str(value))

    def real(self, name: str, default: float = 0.0) -> float:
        """A float argument."""
        value = self._constant(name, types.FLOAT)
        return default if value is None else float(str(value))

    def ticks(self, name: str) -> int | None:
        """A datetime2(7) argument, in ticks."""
        value = self._constant(name, types.datetime2(7))
        return None if value is None else int(str(value))

    def binary(self, name: str) -> bytes | None:
        """A binary(10) argument."""
        value = self._constant(name, types.binary(10))
        return bytes(value) if isinstance(value, (bytes, bytearray)) else None


def arguments_of(parameters: Sequence[Parameter]) -> list[Argument]:
    """An RPC's parameters as arguments."""
    return [Argument(p.name, parameter_value(p), p.output) for p in parameters]


def parameter_value(parameter: Parameter) -> Value:
    """A parameter as a constant; times arrive as T-SQL text and are read as such."""
    kind, value = parameter.type, parameter.value
    if isinstance(value, datetime.date) and kind.name != "date":
        value = value.isoformat()
    if isinstance(value, str) and kind.name in types.TIMES | {"uniqueidentifier"}:
        written = values.text(value, types.varchar(max(1, len(value))))
        return values.of_python(attempt(convert(written, kind)), kind)
    return values.of_python(value, kind)


# --- sp_executesql -----------------------------------------------------------------------------


def _execute_sql(call: Call) -> Iterator[Result]:
    """sp_executesql @stmt [, @params, …]: the rest are values of the declared parameters."""
    if not call.arguments:
        raise SqlError(
            201,
            "Procedure or function 'sp_executesql' expects parameter '@statement', "
            "which was not supplied.",
        )
    text = str(attempt(convert(call.arguments[0].value, types.nvarchar(MAX_LENGTH))))
    parameters: dict[str, Value] = {}
    outputs: dict[str, str] = {}
    if len(call.arguments) > 1:
        declared = str(attempt(convert(call.arguments[1].value, types.nvarchar(MAX_LENGTH))))
        kinds, returned = _declared(declared)
        places = list(kinds)
        for place, argument in enumerate(call.arguments[2:]):
            if not argument.name and place >= len(places):
                raise SqlError(8144, "Procedure or function has too many arguments specified.")
            name = (argument.name or places[place]).lower()
            if name not in kinds:
                raise SqlError(8145, f"{argument.name} is not a parameter for procedure.")
            parameters[name] = convert(argument.value, kinds[name])
            if argument.output:
                if name not in returned:
                    raise errors.no_output_parameter(name)
                outputs[name] = argument.name.lower() or str(place + 2)
        for name in kinds:
            if name not in parameters:
                raise SqlError(
                    8178,
                    f"The parameterized query '({declared}){text}' expects the parameter "
                    f"'{name}', which was not supplied.",
                )
    for result in call.interpreter.dynamic(text, parameters, tuple(outputs)):
        if isinstance(result, OutputParameters):
            # The caller finds its variables by how it gave them: by name, or by place.
            found = tuple((outputs[name], kind, value) for name, kind, value in result.values)
            yield OutputParameters(result.status, found)
        else:
            yield result


def declared_types(text: str) -> dict[str, SqlType]:
    """The parameters that a declaration names (lower case), with their types."""
    return _declared(text)[0] if text.strip() else {}


def _declared(text: str) -> tuple[dict[str, SqlType], set[str]]:
    """The types of declared parameters, in order, and the names of those that are returned."""
    parser = QueryParser(text)
    found: dict[str, SqlType] = {}
    returned: set[str] = set()
    while True:
        name = parser.variable().lower()
        parser.accept("AS")
        found[name] = parser.type_name()
        if parser.accept("OUTPUT", "OUT"):
            returned.add(name)
        if not parser.accept(","):
            return found, returned


# --- metadata ----------------------------------------------------------------------------------


def _space_used(call: Call) -> Iterator[Result]:
    """Of a table, or of the current database in two result sets; sizes are worked out of types."""
    call.declare("@objname", "@updateusage")
    name = call.text("@objname")
    call.session.prepare_read()
    if name is None:
        yield from _database_space(call)
        return
    table = named_object(call.context, name)
    if table is None:
        raise SqlError(
            15009,
            f"The object '{name}' does not exist in database '{call.context.database}' or is "
            "invalid for this operation.",
        )
    count, data, index = _size(call, table)
    yield made.result(
        (("name", types.SYSNAME), ("rows", types.make("char", (20,))), *_SIZES),
        [(table.name, f"{count:<20}", f"{data + index} KB", f"{data} KB", f"{index} KB", "0 KB")],
    )


_SIZES = tuple((n, types.varchar(18)) for n in ("reserved", "data", "index_size", "unused"))


def _size(call: Call, table: e.Table) -> tuple[int, int, int]:
    """Rows, and KB of data and indexes."""
    count = call.context.connection.count(table.physical)
    width = sum(
        max(systypes.max_length(c.type), 0) // (2 if c.type.length else 1) or 16
        for c in table.columns
    )
    return count, -(-count * (width + 9) // 8192) * 8, 16 if table.keys and count else 0


def _database_space(call: Call) -> Iterator[Result]:
    database = call.context.current
    sizes = [_size(call, table) for table in call.context.catalog.tables_of(database.id)]
    data, index = sum(size[1] for size in sizes), sum(size[2] for size in sizes)
    yield made.result(
        (
            ("database_name", types.SYSNAME),
            ("database_size", types.varchar(18)),
            ("unallocated space", types.varchar(18)),
        ),
        [(database.name, f"{(data + index) / 1024:.2f} MB", "0.00 MB")],
    )
    yield made.result(_SIZES, [(f"{data + index} KB", f"{data} KB", f"{index} KB", "0 KB")])


def _reset(call: Call) -> Iterator[Result]:
    call.session.reset()
    yield from ()


PROCEDURES: dict[str, Run] = {
    "sp_executesql": _execute_sql,
    "sp_spaceused": _space_used,
    "sp_reset_connection": _reset,
}
