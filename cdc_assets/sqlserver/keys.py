"""Key ranges of a source table as T-SQL: bounds sought, bound as typed text, read piece by piece.

A bare string parameter is nvarchar and would make the server convert the key column instead of
seeking it; so every bound is cast to the column's declared type, which is built from the catalog
and checked before it is put into a text (seed 0016).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from cdc_assets.planning.keysets import Compared, Key, KeyType, Piece, Term, pieces
from cdc_assets.sqlserver.queries import Names, quoted, read_table, source_table
from cdc_assets.sqlserver.types import SqlType

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NARROW = ("char", "varchar")
_WIDE = ("nchar", "nvarchar")
_BINARY = ("binary", "varbinary")
_PLAIN = {
    *INTEGERS,
    *("bit", "real", "float", "money", "smallmoney"),
    *("date", "datetime", "smalldatetime", "uniqueidentifier"),
}
_FINE = ("datetime2", "datetimeoffset")
"""With seven digits their values are finer than what the driver gives back."""

_COLLATION = re.compile(r"\w{1,128}")


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column that ranges may be cut on: how a bound's text becomes its type again.

    `collation` is the one that a bound is cast with, and `type` what the server orders it by.
    """

    name: str
    declared: str
    collation: str | None = None
    is_binary: bool = False
    is_fine: bool = False
    wide_collation: str | None = None

    @property
    def type(self) -> KeyType:
        """Its type and collation."""
        return KeyType(self.declared, self.collation or self.wide_collation)

    def shown(self, value: str) -> str:
        """A value of the column as it is to be given back: nothing of it may be lost."""
        return f"CONVERT(varchar(34), {value}, 121)" if self.is_fine else value

    @property
    def bound(self) -> str:
        """A parameter, in the column's type."""
        if self.is_binary:
            return f"CONVERT({self.declared}, ?, 1)"
        if self.collation is not None:
            # Else the database's code page converts it: a Greek key would become question marks.
            return f"CAST(? COLLATE {self.collation} AS {self.declared})"
        return f"CAST(? AS {self.declared})"


def key_column(name: str, type_: SqlType, *, is_last: bool) -> KeyColumn | None:
    """How to cut ranges on a key column; None where that cannot be exact.

    That is so for `time`, for types without a mapping, for text whose collation this login does
    not see, and for seven digits of a second anywhere but in the last column (seed 0016).
    """
    kind = type_.name
    if kind in _PLAIN:
        return KeyColumn(name, kind)
    if kind in ("decimal", "numeric") and type_.precision is not None:
        return KeyColumn(name, f"{kind}({int(type_.precision)},{int(type_.scale or 0)})")
    if kind in _FINE and type_.time_scale is not None:
        scale = int(type_.time_scale)
        found = KeyColumn(name, f"{kind}({scale})", is_fine=True)
        return found if is_last or scale < 7 else None
    if type_.length is None or type_.length < 1:
        return None
    declared = f"{kind}({int(type_.length)})"
    if kind in _BINARY:
        return KeyColumn(name, declared, is_binary=True)
    if kind in _WIDE:
        return KeyColumn(name, declared, wide_collation=type_.collation)
    if kind in _NARROW and type_.collation and _COLLATION.fullmatch(type_.collation):
        return KeyColumn(name, declared, type_.collation)
    return None


def bound_text(value: object) -> str | None:
    """A key value as the driver gave it, as the text that `KeyColumn.bound` takes."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if isinstance(value, datetime):
        # A datetime takes no more than three digits of a second.
        return value.isoformat(
            timespec="microseconds" if value.microsecond % 1000 else "milliseconds"
        )
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (int, float, date)):
        return repr(value) if isinstance(value, float) else str(value)
    raise TypeError(f"not a key value: {type(value).__name__}")


def read_range(
    table: tuple[str, str],
    columns: Names,
    keys: Sequence[KeyColumn],
    lower: Key | None,
    upper: Key | None,
) -> tuple[str, tuple[str, ...]]:
    """The rows of [lower, upper): one SELECT for each piece, and the parameters in order."""
    texts, parameters = [], []
    for piece in pieces(lower, upper):
        condition, values = _condition(keys, piece)
        texts.append(read_table(*table, columns, condition))
        parameters.extend(values)
    return " UNION ALL ".join(texts), tuple(parameters)


def next_bound(
    table: tuple[str, str],
    keys: Sequence[KeyColumn],
    lower: Key | None,
    rows: int,
    *,
    start: Compared = Compared.FROM,
    largest: Key | None = None,
) -> tuple[str, tuple[str, ...]]:
    """The key `rows` rows after `lower`: a TOP (rows + 1) for each piece, then their last.

    Its columns are numbered: a name may not come back from the driver as it is. It has no row
    where fewer rows are left, or where the key is above `largest`. `start` is as in `pieces`.
    """
    names = ", ".join(quoted(key.name) for key in keys)
    texts, parameters = [], []
    for index, piece in enumerate(pieces(lower, None, start)):
        condition, values = _condition(keys, piece)
        where = f" WHERE {condition}" if condition else ""
        texts.append(
            f"SELECT {names} FROM (SELECT TOP ({int(rows) + 1}) {names}"
            f" FROM {source_table(*table)}{where} ORDER BY {names}) AS [__$piece{index}]"
        )
        parameters.extend(values)
    found = (
        f"SELECT {names} FROM ({' UNION ALL '.join(texts)}) AS [__$pieces] ORDER BY {names}"
        f" OFFSET {int(rows)} ROWS FETCH NEXT 1 ROWS ONLY"
    )
    text = f"SELECT {_numbered(keys, '[__$found].')} FROM ({found}) AS [__$found]"
    if largest is None:
        return text, tuple(parameters)
    condition, values = _whole(keys, largest, Compared.UNTIL)
    return f"{text} WHERE {condition}", (*parameters, *values)


def largest_key(table: tuple[str, str], keys: Sequence[KeyColumn]) -> str:
    """The largest key, its columns numbered; no row where the table has none."""
    order = ", ".join(f"[__$t].{quoted(key.name)} DESC" for key in keys)
    return (
        f"SELECT TOP (1) {_numbered(keys, '[__$t].')} FROM {source_table(*table)} AS [__$t]"
        f" ORDER BY {order}"
    )


def count_range(
    table: tuple[str, str], keys: Sequence[KeyColumn], lower: Key | None, upper: Key | None
) -> tuple[str, tuple[str, ...]]:
    """How many rows [lower, upper) has, as `row_count`."""
    texts, parameters = [], []
    for piece in pieces(lower, upper):
        condition, values = _condition(keys, piece)
        where = f" WHERE {condition}" if condition else ""
        texts.append(f"SELECT COUNT_BIG(*) AS [rows] FROM {source_table(*table)}{where}")
        parameters.extend(values)
    union = " UNION ALL ".join(texts)
    return f"SELECT SUM(x.[rows]) AS row_count FROM ({union}) AS x", tuple(parameters)


def _numbered(keys: Sequence[KeyColumn], of: str) -> str:
    """A key's columns in a SELECT, called by their places."""
    shown = (key.shown(of + quoted(key.name)) for key in keys)
    return ", ".join(f"{text} AS [k{place}]" for place, text in enumerate(shown))


def _condition(keys: Sequence[KeyColumn], piece: Piece) -> tuple[str, list[str]]:
    terms = [_term(keys, term) for term in piece.terms]
    if piece.before is not None:
        terms.append(_whole(keys, piece.before, Compared.BELOW))
    if piece.beyond is not None:
        terms.append(_term(keys, piece.beyond))
    parameters = [value for _, values in terms for value in values]
    return " AND ".join(text for text, _ in terms), parameters


def _term(keys: Sequence[KeyColumn], term: Term) -> tuple[str, list[str]]:
    key = keys[term.place]
    name = quoted(key.name)
    if term.value is None:
        return {
            Compared.EQUAL: f"{name} IS NULL",
            Compared.ABOVE: f"{name} IS NOT NULL",
            Compared.FROM: "1 = 1",
            Compared.BELOW: "1 = 0",
            Compared.UNTIL: f"{name} IS NULL",
        }[term.compared], []
    text = f"{name} {term.compared} {key.bound}"
    if term.compared in (Compared.BELOW, Compared.UNTIL):
        # The server drops the test where the column is NOT NULL, as in every index CDC takes.
        text = f"({text} OR {name} IS NULL)"
    return text, [term.value]


def _whole(
    keys: Sequence[KeyColumn], end: Key, compared: Compared, place: int = 0
) -> tuple[str, list[str]]:
    """Whole keys below `end`, or not above it: `a < u OR (a = u AND (b < v OR …))`."""
    if place == len(end) - 1:
        return _term(keys, Term(place, compared, end[place]))
    below, values = _term(keys, Term(place, Compared.BELOW, end[place]))
    same, again = _term(keys, Term(place, Compared.EQUAL, end[place]))
    rest, more = _whole(keys, end, compared, place + 1)
    return f"({below} OR ({same} AND {rest}))", [*values, *again, *more]
