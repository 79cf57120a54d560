"""The parameter declarations of sp_executesql and its kin: `@P1 nvarchar(64), @P2 int OUTPUT`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdc_assets.sandbox.results import MAX_LENGTH, Parameter, SqlError, SqlType
from cdc_assets.sandbox.wire.type_info import arrow_type

_DECLARATION = re.compile(
    r"^\s*(?P<name>@[\w@#$]+)\s+(?:AS\s+)?(?P<type>[\w.\[\]]+(?:\s+precision)?)"
    r"\s*(?:\((?P<arguments>[^)]*)\))?\s*(?:=.*?)?\s*(?P<output>OUT|OUTPUT)?\s*(?:READONLY)?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_ALIASES = {
    "integer": "int",
    "dec": "decimal",
    "timestamp": "rowversion",
    "double precision": "float",
    "character": "char",
    "sysname": "nvarchar",
}
_LENGTHS = frozenset(("char", "varchar", "nchar", "nvarchar", "binary", "varbinary"))
_SCALES = frozenset(("time", "datetime2", "datetimeoffset"))
_FLOAT_DIGITS_OF_REAL = 24
MAX_DIGITS = 38
"""Of a decimal, in all."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One declared parameter; `type` is None where the wire does not know the name."""

    name: str
    type: SqlType | None
    output: bool


def parse_declarations(text: str) -> tuple[Declaration, ...]:
    """The declarations, in order; `SqlError` 102 where the text is none, 2750 or 183 for a type."""
    parts = [part for part in _split(text) if part.strip()]
    return tuple(_declaration(part, number) for number, part in enumerate(parts, start=1))


def bind(declared: Sequence[Declaration], values: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Values as the statement sees them: declared names and types, in the declared order.

    Named values go by name, the others by position. Raises `SqlError` 8178 for a missing value
    and 8162 for one to be returned that is not declared so.
    """
    if not declared:
        return tuple(values)
    by_name = {value.name.lower(): value for value in values if value.name}
    positional = [value for value in values if not value.name]
    bound = []
    for position, declaration in enumerate(declared):
        value = by_name.get(declaration.name.lower())
        if value is None and position < len(positional):
            value = positional[position]
        if value is None:
            text = (
                "The parameterized query expects the parameter "
                f"'{declaration.name}', which was not supplied."
            )
            raise SqlError(8178, text)
        if value.output and not declaration.output:
            text = (
                f'The formal parameter "{declaration.name}" was not declared as an OUTPUT '
                "parameter, but the actual parameter passed in requested output."
            )
            raise SqlError(8162, text, state=2)
        bound.append(replace(value, name=declaration.name, type=_declared_type(declaration, value)))
    return tuple(bound)


def _declared_type(declaration: Declaration, value: Parameter) -> SqlType:
    if declaration.type is None:
        return value.type
    return declaration.type


def _declaration(text: str, number: int) -> Declaration:
    match = _DECLARATION.match(text)
    if match is None:
        raise SqlError(102, f"Incorrect syntax near '{text.strip()[:60]}'.", severity=15)
    name = match["type"].lower().replace("[", "").replace("]", "").removeprefix("sys.")
    arguments = [part.strip().lower() for part in (match["arguments"] or "").split(",")]
    kind = _sql_type(name, arguments)
    if kind is not None and kind.name in ("decimal", "numeric"):
        _check_digits(kind, number)
    return Declaration(match["name"], kind, bool(match["output"]))


def _check_digits(kind: SqlType, number: int) -> None:
    """Raise Msg 2750 or 183 for a decimal that there is not."""
    digits, scale = kind.precision or 0, kind.scale or 0
    if digits > MAX_DIGITS:
        raise SqlError(
            2750,
            f"Column or parameter #{number}: Specified column precision {digits} is greater than "
            f"the maximum precision of {MAX_DIGITS}.",
        )
    if scale > digits:
        raise SqlError(183, f"The scale ({scale}) must be within the range 0 to {digits}.", 15)


def _sql_type(declared: str, arguments: list[str]) -> SqlType | None:
    name = _ALIASES.get(declared, declared)
    if declared == "sysname":
        return SqlType("nvarchar", length=128)
    try:
        numbers = [
            MAX_LENGTH if argument == "max" else int(argument) for argument in arguments if argument
        ]
        sql_type = _with_arguments(name, numbers)
        if sql_type.name not in ("decimal", "numeric"):  # those are judged by their digits
            arrow_type(sql_type)
    except Exception:  # noqa: BLE001 - an unknown type is the engine's to judge
        return None
    return sql_type


def _with_arguments(name: str, numbers: list[int]) -> SqlType:
    if name in _LENGTHS:
        return SqlType(name, length=numbers[0] if numbers else 1)
    if name in ("decimal", "numeric"):
        precision, scale = (*numbers, 0)[:2] if numbers else (18, 0)
        return SqlType(name, precision=precision, scale=scale)
    if name in _SCALES:
        return SqlType(name, scale=numbers[0] if numbers else 7)
    if name == "float" and numbers and numbers[0] <= _FLOAT_DIGITS_OF_REAL:
        return SqlType("real")
    return SqlType(name)


def _split(text: str) -> Iterator[str]:
    """Parts between the commas that stand outside of parentheses."""
    depth = start = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and not depth:
            yield text[start:position]
            start = position + 1
    yield text[start:]
