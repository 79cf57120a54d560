"""Ranges of a key of several columns, cut into pieces that an index can seek (seed 0016).

T-SQL has no row comparison, and a seek takes equalities on leading columns plus a range on the
next one. So a range from (x, y) to (u, v) becomes `a = x AND b >= y`, `a > x AND a < u` and
`a = u AND b < v`, one SELECT each. NULL sorts first, as in ORDER BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

Key = tuple[str | None, ...]
"""A key's values as text, in the key's order; None is NULL."""

_INTEGERS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
"""Their bytes: all of them have one order."""


@dataclass(frozen=True, slots=True)
class KeyType:
    """What the server orders a key column by: its type as declared, and a text's collation."""

    declared: str
    collation: str | None = None

    def __str__(self) -> str:
        return self.declared + (f" COLLATE {self.collation}" if self.collation else "")

    @property
    def kind(self) -> str:
        """All types of one order have one name."""
        name = self.declared.partition("(")[0]
        same = {"numeric": "decimal", **dict.fromkeys(_INTEGERS, "integer")}
        return same.get(name, name)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How much it holds: a type with none of them smaller holds every value of the other's."""
        name, _, rest = self.declared.partition("(")
        if name in _INTEGERS:
            return (_INTEGERS[name],)
        sizes = [int(size) for size in rest.rstrip(")").split(",") if size]
        return (sizes[0] - sizes[1], sizes[1]) if self.kind == "decimal" else tuple(sizes)


def keeps_order(before: KeyType, now: KeyType) -> bool:
    """Whether bounds of one type cut the same rows as another: one that only holds more does.

    One that holds less would round bounds, or refuse them.
    """
    return (
        before.kind == now.kind
        and before.collation == now.collation
        and all(old <= new for old, new in zip(before.sizes, now.sizes, strict=True))
    )


class Compared(StrEnum):
    """How a column stands to a value."""

    EQUAL = "="
    BELOW = "<"
    ABOVE = ">"
    FROM = ">="
    UNTIL = "<="


@dataclass(frozen=True, slots=True)
class Term:
    """One column of the key, by its place, against a value."""

    place: int
    compared: Compared
    value: str | None


@dataclass(frozen=True, slots=True)
class Piece:
    """Terms that all hold, and the rows that are another piece's.

    Two values may differ as text and be equal under a column's collation ('n' and 'N'). Then
    pieces that should exclude each other do not: `before` is the range's end, which the rows must
    also stay below as whole keys, and `beyond` a term they must also meet.
    """

    terms: tuple[Term, ...] = ()
    before: Key | None = None
    beyond: Term | None = None


def range_sizes(rows: int, count: int) -> list[int]:
    """Rows of each range: the first `rows % count` hold one more; at most one range a row."""
    count = max(1, min(rows, count))
    each, more = divmod(rows, count)
    return [each + (index < more) for index in range(count)]


def ranges_between(bounds: Sequence[Key]) -> list[tuple[Key | None, Key | None]]:
    """The ranges [from, to) that bounds cut; None is an open end."""
    return list(zip([None, *bounds], [*bounds, None], strict=True))


def pieces(
    lower: Key | None, upper: Key | None, start: Compared = Compared.FROM
) -> tuple[Piece, ...]:
    """The pieces of [lower, upper), in key order; None is an open end.

    Without `lower` itself where `start` is `ABOVE`. Raises ValueError for an empty range: it
    would be read for nothing.
    """
    if lower is None and upper is None:
        return (Piece(),)
    if upper is None:
        assert lower is not None  # noqa: S101 - for the type checker
        return (*_from(lower, 0, None, start), Piece((Term(0, Compared.ABOVE, lower[0]),)))
    if lower is None:
        return (Piece((Term(0, Compared.BELOW, upper[0]),)), *_until(upper, 0, None))
    shared = next((i for i, (x, u) in enumerate(zip(lower, upper, strict=True)) if x != u), None)
    if shared is None:
        raise ValueError(f"an empty range must never be read: from {lower} to itself")
    same = tuple(Term(i, Compared.EQUAL, lower[i]) for i in range(shared))
    above = Term(shared, Compared.ABOVE, lower[shared])
    below = Term(shared, Compared.BELOW, upper[shared])
    if shared == len(lower) - 1:
        return (Piece((*same, Term(shared, start, lower[shared]), below)),)
    return (
        *_from(lower, shared, upper, start),
        Piece((*same, above, below)),
        *_until(upper, shared, above),
    )


def _from(lower: Key, shared: int, before: Key | None, start: Compared) -> list[Piece]:
    """What has `lower`'s value in the column `shared` and is not below it."""
    found = []
    last = len(lower) - 1
    for place in range(last, shared, -1):
        same = tuple(Term(i, Compared.EQUAL, lower[i]) for i in range(place))
        compared = start if place == last else Compared.ABOVE
        found.append(Piece((*same, Term(place, compared, lower[place])), before=before))
    if shared == last and start is Compared.FROM:
        found.append(Piece((Term(shared, Compared.EQUAL, lower[shared]),)))
    return found


def _until(upper: Key, shared: int, beyond: Term | None) -> list[Piece]:
    """What has `upper`'s value in the column `shared` and is below it."""
    return [
        Piece(
            (
                *(Term(i, Compared.EQUAL, upper[i]) for i in range(place)),
                Term(place, Compared.BELOW, upper[place]),
            ),
            beyond=beyond,
        )
        for place in range(shared + 1, len(upper))
    ]
