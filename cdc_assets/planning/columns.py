"""Which captured columns are loaded, and what they are called in the lake.

Two names are one where Spark's resolver, which ignores case, takes them for one: a table with both
could never be read by it. Names come from the source as they are; `rename` in the settings gives a
column another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets.contract import our_column
from cdc_assets.errors import SilverKeyError, UnsupportedColumnError
from cdc_assets.names import folded

CANDIDATES_MAX = 40
"""Names that a message lists."""

_REFUSED = re.compile(r"[ ,;{}()\n\t=]")


@dataclass(frozen=True, slots=True)
class ColumnWish:
    """What the settings say: which columns (None: all), and source name to name in the lake."""

    columns: tuple[str, ...] | None = None
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A column to load: its name at the source, its name in the lake.

    A computed one is captured as NULL in every change row, so it reads NULL everywhere.
    """

    source: str
    name: str
    is_computed: bool = False


def is_refused(name: str) -> bool:
    """Whether Delta refuses the name in a table without column mapping."""
    return _REFUSED.search(name) is not None


def find_name(wanted: str, names: Collection[str]) -> str | None:
    """The name meant: exactly, else the only one that differs in case; None for none or several."""
    if wanted in names:
        return wanted
    alike = [name for name in names if folded(name) == folded(wanted)]
    return alike[0] if len(alike) == 1 else None


def listed(names: Iterable[str]) -> str:
    """Names for a message, as many as it may hold."""
    every = list(names)
    more = f", and {len(every) - CANDIDATES_MAX} more" if len(every) > CANDIDATES_MAX else ""
    return ", ".join(every[:CANDIDATES_MAX]) + more


def choose_columns(
    captured: Sequence[str], computed: Collection[str], wish: ColumnWish, *, where: str
) -> tuple[Chosen, ...]:
    """The columns to load, in the order captured.

    Computed columns are left out unless the wish names them. Raises `UnsupportedColumnError` for
    a name in the wish that is not captured, a name that is one of ours, two columns with one name,
    and a choice of computed columns alone.
    """
    wanted = {_captured(name, "columns", captured, where) for name in wish.columns or ()}
    rename = {_captured(s, "rename", captured, where): t for s, t in wish.rename.items()}
    chosen = tuple(
        Chosen(name, rename.get(name, name), name in computed)
        for name in captured
        if (name in wanted if wanted else name not in computed)
    )
    if all(column.is_computed for column in chosen):
        raise UnsupportedColumnError(
            f"all columns to load from {where} are computed, and captured as NULL",
            hint=f"Captured are: {listed(captured)}.",
        )
    _check_names(chosen)
    return chosen


def check_keys(keys: Sequence[str], computed: Collection[str], *, where: str) -> None:
    """Raise `UnsupportedColumnError` for a key column that is computed, by names in the lake.

    It is NULL in every change row: silver could tell no row from another.
    """
    for key in keys:
        if find_name(key, computed) is not None:
            raise UnsupportedColumnError(
                f"key column {key} of {where} is computed, and CDC captures computed columns as"
                " NULL: by this key no row can be followed",
                hint="Name stored columns that identify a row under `keys`, by their names in the"
                " lake.",
            )


def check_unique(keys: Sequence[str], indexes: Iterable[Collection[str]], *, where: str) -> None:
    """Raise `SilverKeyError` for a key that is no unique index's columns, by names in the lake.

    Several rows of the source would be one row of silver. An index admits NULL once, which is a
    key like any other.
    """
    wanted = {folded(key) for key in keys}
    known = [sorted(index) for index in indexes]
    if any(wanted == {folded(name) for name in index} for index in known):
        return
    there = " and ".join(f"({listed(index)})" for index in known)
    raise SilverKeyError(
        f"the key ({listed(keys)}) is not the columns of a unique index of its table, so that"
        " several rows may have it; nothing was read",
        where=where,
        hint=f"Unique are: {there or 'none'}. If no two rows have the same key all the same, set"
        " `keys_unchecked: true`.",
    )


def left_out(
    captured: Sequence[str], computed: Collection[str], chosen: Sequence[Chosen], wish: ColumnWish
) -> tuple[str, ...]:
    """The computed columns that nobody asked to leave out."""
    taken = {column.source for column in chosen}
    if wish.columns is not None:
        return ()
    return tuple(name for name in captured if name in computed and name not in taken)


def without_lost(
    wish: ColumnWish, captured: Collection[str], existing: Collection[str]
) -> ColumnWish:
    """The wish without those columns that a table has from before and the instance lacks."""
    held = {folded(name) for name in existing}

    def lost(name: str) -> bool:
        there = find_name(name, captured) is not None
        return not there and folded(wish.rename.get(name, name)) in held

    columns = None if wish.columns is None else tuple(c for c in wish.columns if not lost(c))
    return ColumnWish(columns, {k: v for k, v in wish.rename.items() if not lost(k)})


def adopt(chosen: Sequence[Chosen], existing: Collection[str]) -> tuple[Chosen, ...]:
    """The choice with the names that a table has already, where only the case differs."""
    known = {folded(name): name for name in existing}
    return tuple(replace(c, name=known.get(folded(c.name), c.name)) for c in chosen)


def check_unmapped(names: Iterable[str], existing: Collection[str], *, where: str) -> None:
    """Raise `UnsupportedColumnError` for a new name that a table without mapping cannot hold.

    delta-rs would write it without a word, and Spark would not read the table again.
    """
    for name in names:
        if is_refused(name) and name not in existing:
            raise UnsupportedColumnError(
                f"column {name!r} has a character that Delta refuses in a table without column"
                " mapping, and the table was created without",
                where=where,
                hint=f"Give it another name: rename: {{{name!r}: …}}, or start the table anew.",
            )


def _captured(name: str, option: str, captured: Sequence[str], where: str) -> str:
    found = find_name(name, captured)
    if found is not None:
        return found
    alike = [other for other in captured if folded(other) == folded(name)]
    if alike:
        raise UnsupportedColumnError(
            f"{name} in `{option}` may mean {' and '.join(alike)} of {where}",
            hint="Write the name exactly.",
        )
    raise UnsupportedColumnError(
        f"column {name} in `{option}` is not captured by {where}",
        hint=f"Captured are: {listed(captured)}.",
    )


def _check_names(chosen: Sequence[Chosen]) -> None:
    seen: dict[str, Chosen] = {}
    for column in chosen:
        key = folded(column.name)
        called = "" if column.name == column.source else f", renamed to {column.name},"
        if ours := our_column(column.name):
            raise UnsupportedColumnError(
                f"column {column.source}{called} has the name of one of ours, {ours}",
                hint=f"Give it another: rename: {{{column.source}: …}}, or leave it out: list the"
                " other columns under `columns`.",
            )
        if key in seen:
            raise UnsupportedColumnError(
                f"columns {seen[key].source} and {column.source} would both be {column.name} in"
                " the lake, where case does not count",
                hint=f"Give one another name: rename: {{{column.source}: …}}, or leave it out:"
                " list the other columns under `columns`.",
            )
        seen[key] = column
