"""Key types of random histories: how T-SQL writes their values, and how the lake shows them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

Key = tuple[Any, ...]
"""A key's values, one for each of its columns."""

_WORDS = ("a", "A", "b ", "Ab", "aB", "ab ", "x'y", "x\\y", "éa", "Éa", "z", "Zz", "m", "n", "N-1")
_EPOCH = datetime(2026, 1, 1)


@dataclass(frozen=True)
class KeyKind:
    """A kind of key.

    `types` are its columns' in T-SQL. `make` draws a value, `literal` writes one of its columns'
    values in T-SQL, `lake` gives it as the lake shows it, and `folded` the same for any two that
    SQL Server takes for equal. `order` places a key among those of a chunk's bounds, as texts,
    where silver's range deletes are for this type. One that is `alternate` is not the capture
    instance's: it may be NULL, and an update of it is recorded as 3 and 4.
    """

    name: str
    types: tuple[str, ...]
    make: Callable[[random.Random], Key]
    literal: Callable[[Any], str] = str
    lake: Callable[[Any], Any] = lambda value: value
    folded: Callable[[Any], Any] = lambda value: value
    order: Callable[[str], Any] | None = None
    alternate: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns' names."""
        return tuple(f"k{number}" for number in range(1, len(self.types) + 1))

    def sql(self, value: Any) -> str:
        """A value of one of its columns in T-SQL."""
        return "NULL" if value is None else self.literal(value)

    def canonical(self, key: Key) -> Key:
        """What is the same for keys that SQL Server takes for equal."""
        return tuple(None if value is None else self.folded(value) for value in key)

    def shown(self, key: Key) -> Key:
        """The key as the lake shows it."""
        return tuple(None if value is None else self.lake(value) for value in key)

    def pool(self, draw: random.Random, size: int) -> list[Key]:
        """Different keys; some of them equal for SQL Server where it can be so."""
        found: dict[Key, None] = {}
        for _ in range(size * 20):
            found[self.make(draw)] = None
            if len(found) == size:
                break
        return list(found)


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _unicode(value: object) -> str:
    return "N" + _quoted(value)


def _int(draw: random.Random) -> Key:
    edges = (-(2**31), -1, 0, 2**31 - 1)
    return (
        draw.choice(edges) if draw.random() < 0.05 else draw.choice((0, 5000)) + draw.randrange(40),
    )


def _bigint(draw: random.Random) -> Key:
    edges = (-(2**63), 2**63 - 1, 2**40)
    return (draw.choice(edges) if draw.random() < 0.08 else draw.randrange(60),)


def _word(draw: random.Random) -> Key:
    return (draw.choice(_WORDS) + draw.choice(("", "", "1", "2")),)


def _wide(draw: random.Random) -> Key:
    return (draw.choice((*_WORDS, "Ω", "ж", "Ж2")) + draw.choice(("", "1", "ω")),)


def _moment(draw: random.Random) -> Key:
    """To 100 ns, and no two within one microsecond: the lake would show them as one."""
    return (_EPOCH + timedelta(seconds=draw.randrange(30), microseconds=draw.randrange(3)),)


def _ticks(value: datetime) -> str:
    """With a digit below the microsecond that the lake does not show, always the same one."""
    return _quoted(f"{value:%Y-%m-%dT%H:%M:%S.%f}{(value.second + value.microsecond) % 10}")


def _word_folded(value: str) -> str:
    return value.rstrip(" ").lower()


def _nullable(draw: random.Random) -> Key:
    return (None,) if draw.random() < 0.08 else _word(draw)


_CI = "varchar(12) COLLATE Latin1_General_CI_AS"

KINDS = (
    KeyKind("int", ("int",), _int, order=int),
    KeyKind("bigint", ("bigint",), _bigint, order=int),
    KeyKind("pair", ("int", "int"), lambda draw: (draw.randrange(4), draw.randrange(15))),
    KeyKind("varchar", (_CI,), _word, _quoted, folded=_word_folded),
    KeyKind("nvarchar", ("nvarchar(12)",), _wide, _unicode, folded=_word_folded),
    KeyKind(
        "uniqueidentifier",
        ("uniqueidentifier",),
        lambda draw: (uuid.UUID(int=draw.getrandbits(128)),),
        _quoted,
        lake=lambda value: str(value).upper(),
    ),
    KeyKind(
        "date",
        ("date",),
        lambda draw: (date(2026, 1, 1) + timedelta(days=draw.randrange(60)),),
        _quoted,
        order=date.fromisoformat,
    ),
    KeyKind(
        "decimal", ("decimal(12,3)",), lambda draw: (Decimal(draw.randrange(-30, 30)).scaleb(-3),)
    ),
    KeyKind("datetime2", ("datetime2(7)",), _moment, _ticks),
    KeyKind("nullable", (_CI,), _nullable, _quoted, folded=_word_folded, alternate=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}
