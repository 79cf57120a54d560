"""A bound expression: DuckDB text with its exact T-SQL type."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.results import MAX_LENGTH, SqlError, SqlType

TICKS_PER_SECOND = 10_000_000
TICKS_PER_DAY = 86_400 * TICKS_PER_SECOND
MAX_TICKS = 3_652_059 * TICKS_PER_DAY - 1
"""9999-12-31 23:59:59.9999999."""

ERROR_MARK = "\x02"
"""Starts the text of an error that generated SQL raises by itself."""
_PLACE = "\x05"
"""Where the name of an expression that is computed once will stand."""
_SHORT = 200
"""Characters up to which an expression is written out at each use."""


class Unset:
    """The value of an expression that is no constant."""

    __slots__ = ()


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class Value:
    """An expression: `constant` is its Python value where it is known while binding."""

    sql: str
    type: SqlType
    nullable: bool = True
    constant: object = UNSET
    untyped_null: bool = False
    literal: bool = False
    """Written in the text: a whole number then has only its own digits as a decimal."""

    collated: bool = False
    """Its collation was written with COLLATE, which wins over a column's."""

    @property
    def is_constant(self) -> bool:
        """Whether its value is known."""
        return not isinstance(self.constant, Unset)

    def derived(self, sql: str, kind: SqlType | None = None) -> Value:
        """A value computed from this one, so no longer a constant."""
        return replace(self, sql=sql, type=kind or self.type, constant=UNSET, untyped_null=False)


def quote(text: str) -> str:
    """A string literal of DuckDB; a NUL cannot stand in its text."""
    if "\0" in text:
        return "(" + " || chr(0) || ".join(quote(part) for part in text.split("\0")) + ")"
    return "'" + text.replace("'", "''") + "'"


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Inside, what would raise an error gives NULL: TRY_CAST and TRY_CONVERT."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def raising(number: int, text: str, severity: int = 16, state: int = 1) -> str:
    """DuckDB text that raises this error when a row reaches it."""
    if _quiet.get():
        return "NULL"
    return f"error({quote(f'{ERROR_MARK}{number}|{severity}|{state}|{text}')})"


def raising_with(number: int, before: str, shown: str, after: str) -> str:
    """Like `raising`, with the DuckDB text `shown` in the middle of the message."""
    if _quiet.get():
        return "NULL"
    head = quote(f"{ERROR_MARK}{number}|16|1|{before}")
    return f"error({head} || coalesce(CAST({shown} AS VARCHAR), '') || {quote(after)})"


def once(sql: str, use: Callable[[str], str], *, costly: bool = False) -> str:
    """What `use` makes of a name for the expression, which is computed once for all its uses.

    Written out at each use, expressions inside expressions grow without bound. A short one is
    written out unless it is costly, as a call of a large macro is: it costs less than the list of
    one that DuckDB keeps the other in.
    """
    if len(sql) <= _SHORT and not costly:
        return use(sql)
    body = use(_PLACE)
    name = next(name for name in map("once{}".format, count()) if name not in body)
    return f"list_transform([{sql}], lambda {name}: {body.replace(_PLACE, name)})[1]"


def raised(message: str) -> SqlError | None:
    """The error that generated SQL raised, out of DuckDB's message."""
    mark = message.find(ERROR_MARK)
    if mark < 0:
        return None
    number, severity, state, text = message[mark + 1 :].split("|", 3)
    return SqlError(int(number), text, int(severity), int(state))


def try_cast(sql: str, target: str, failure: str) -> str:
    """DuckDB text of a cast whose failure raises an error of ours; NULL stays NULL."""
    return (
        f"CASE WHEN {sql} IS NULL THEN NULL ELSE coalesce(TRY_CAST({sql} AS {target}), "
        f"{failure}) END"
    )


def null(kind: SqlType | None = None) -> Value:
    """NULL; without a type it takes any."""
    chosen = kind or types.INT
    return Value(f"CAST(NULL AS {types.physical(chosen)})", chosen, True, None, kind is None)


def text(value: str, kind: SqlType) -> Value:
    """A string constant."""
    return Value(quote(value), kind, False, value)


def nvarchar(value: str | None) -> Value:
    """A Unicode string constant of just its length."""
    if value is None:
        return null(types.SYSNAME)
    units = utf16_units(value)
    return text(value, types.nvarchar(max(1, units) if units <= 4000 else MAX_LENGTH))


def utf16_units(value: str) -> int:
    """A string's length as T-SQL counts it for nvarchar."""
    return len(value) + sum(char > "\uffff" for char in value)


def sysname(value: str | None) -> Value:
    """A name: nvarchar(128)."""
    return null(types.SYSNAME) if value is None else text(value, types.SYSNAME)


def integer(value: int | None, kind: SqlType = types.INT) -> Value:
    """A whole number constant."""
    if value is None:
        return null(kind)
    return Value(f"CAST({value} AS {types.physical(kind)})", kind, False, value)


def blob(value: bytes, kind: SqlType | None = None) -> Value:
    """A binary constant."""
    chosen = kind or types.varbinary(max(1, len(value)))
    return Value(f"unhex('{value.hex()}')", chosen, False, value)


def ticks(value: int, kind: SqlType) -> Value:
    """A point in time (or of the day) constant, in 100 ns."""
    return Value(f"CAST({value} AS BIGINT)", kind, False, value)


def of_python(value: object, kind: SqlType) -> Value:
    """A parameter's or variable's Python value as a constant of a type.

    Times are T-SQL text or, as results carry them, ticks; `offset` pairs are a dictionary.
    """
    if value is None:
        return null(kind)
    name = types.physical(kind)
    if isinstance(value, bool):
        return Value("TRUE" if value else "FALSE", kind, False, value)
    if isinstance(value, int):
        return Value(f"CAST({value} AS {name})", kind, False, value)
    if isinstance(value, Decimal):
        return Value(f"CAST({quote(f'{value:f}')} AS {name})", kind, False, value)
    if isinstance(value, float):
        return Value(f"CAST({quote(repr(value))} AS {name})", kind, False, value)
    if isinstance(value, (bytes, bytearray)):
        return blob(bytes(value), kind)
    if isinstance(value, (datetime.date, uuid.UUID)):
        shown = str(value).upper()
        return Value(f"CAST({quote(shown)} AS {name})", kind, False, value)
    if isinstance(value, dict):
        struct = f"{{'ticks': {value['ticks']}, 'offset_minutes': {value['offset_minutes']}}}"
        return Value(f"CAST({struct} AS {name})", kind, False, value)
    return Value(quote(str(value)), kind, False, str(value))
