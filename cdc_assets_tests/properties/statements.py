"""Statements of random histories: their T-SQL, and what they do to a table's rows.

Each does what can be done of it: a row whose key is there is not inserted again, one that is not
there is neither changed nor moved. A history from which steps were dropped therefore stays valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.model import Row, State, Table, Values


@dataclass(frozen=True)
class Insert:
    """New rows."""

    table: int
    rows: tuple[Row, ...]

    def possible(self, table: Table, state: State) -> Insert | None:
        """Those whose keys are free."""
        kind, free = table.kind, {}
        for row in self.rows:
            if kind.canonical(row.key) not in state:
                free.setdefault(kind.canonical(row.key), row)
        return replace(self, rows=tuple(free.values())) if free else None

    def done(self, table: Table, state: State) -> tuple[State, int]:
        """The rows afterwards, and how many changes are recorded."""
        new = {table.kind.canonical(row.key): row for row in self.rows}
        return {**state, **new}, len(new)

    def sql(self, table: Table, extra: bool) -> str:
        """The statement."""
        names = [*table.kind.columns, "n", "note", *(["extra"] if extra else [])]
        rows = (
            [*map(table.kind.sql, row.key), _int(row.n), _text(row.note)]
            + ([_int(row.extra)] if extra else [])
            for row in self.rows
        )
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"INSERT INTO dbo.{table.name} ({', '.join(names)}) VALUES {values}"


@dataclass(frozen=True)
class Update:
    """Other values in some rows, or in all without keys; `extra` only where that is there."""

    table: int
    keys: tuple[Key, ...]
    n: int | None
    extra: int | None = None

    def possible(self, table: Table, state: State) -> Update | None:
        """Those that are there and would change."""
        found = [k for k in _present(table, state, self.keys) if self._new(state, table, k)]
        return replace(self, keys=tuple(found)) if found else None

    def _new(self, state: State, table: Table, key: Key) -> Row | None:
        row = state[table.kind.canonical(key)]
        new = replace(row, n=self.n, extra=self.extra)
        return new if new != row else None

    def done(self, table: Table, state: State) -> tuple[State, int]:
        """The rows afterwards, and how many changes are recorded."""
        found = {k: self._new(state, table, k) for k in self.keys}
        new = {table.kind.canonical(k): row for k, row in found.items() if row is not None}
        return {**state, **new}, 2 * len(new)

    def sql(self, table: Table, extra: bool) -> str:
        """The statement."""
        more = f", extra = {_int(self.extra)}" if extra else ""
        return f"UPDATE dbo.{table.name} SET n = {_int(self.n)}{more} WHERE {_in(table, self.keys)}"


@dataclass(frozen=True)
class Delete:
    """Rows that go."""

    table: int
    keys: tuple[Key, ...]

    def possible(self, table: Table, state: State) -> Delete | None:
        """Those that are there."""
        found = _present(table, state, self.keys)
        return replace(self, keys=tuple(found)) if found else None

    def done(self, table: Table, state: State) -> tuple[State, int]:
        """The rows afterwards, and how many changes are recorded."""
        gone = {table.kind.canonical(key) for key in self.keys}
        return {key: row for key, row in state.items() if key not in gone}, len(gone)

    def sql(self, table: Table, extra: bool) -> str:
        """The statement."""
        return f"DELETE FROM dbo.{table.name} WHERE {_in(table, self.keys)}"


@dataclass(frozen=True)
class Move:
    """Rows that take other keys in one statement, in a ring or a chain perhaps.

    The capture instance's own key: rows that leave a key are deletes and those that take one
    inserts, but where both meet in one statement it is an update of that key.
    """

    table: int
    pairs: tuple[tuple[Key, Key], ...]

    def possible(self, table: Table, state: State) -> Move | None:
        """Those that are there and whose new keys are free, or are left by another of them.

        Of an alternate key only free ones: a row's 4 and another's 3 of one key have no order.
        """
        kind, found = table.kind, list(self.pairs)
        seen: set[Key] = set()
        while True:
            left = {kind.canonical(old) for old, _ in found}
            taken = Counter(kind.canonical(new) for _, new in found)
            kept = []
            for old, new in found:
                own, other = kind.canonical(old), kind.canonical(new)
                is_free = other not in state or (other in left and not kind.alternate)
                is_free = is_free or own == other
                is_there = own in state and state[own].key != new and taken[other] == 1
                if is_there and is_free:
                    kept.append((old, new))
            kept = [pair for pair in kept if _first(seen, kind.canonical(pair[0]))]
            seen.clear()
            if len(kept) == len(found):
                return replace(self, pairs=tuple(kept)) if kept else None
            found = kept

    def done(self, table: Table, state: State) -> tuple[State, int]:
        """The rows afterwards, and how many changes are recorded."""
        kind = table.kind
        old = {kind.canonical(a): state[kind.canonical(a)] for a, _ in self.pairs}
        new = {kind.canonical(b): replace(old[kind.canonical(a)], key=b) for a, b in self.pairs}
        kept = {key: row for key, row in state.items() if key not in old}
        if kind.alternate or len(self.pairs) == 1:
            return {**kept, **new}, 2 * len(old)
        met = old.keys() & new.keys()
        changed = sum(old[key] != new[key] for key in met)
        alone = len(old.keys() - met) + len(new.keys() - met)
        return {**kept, **new}, alone + 2 * changed

    def sql(self, table: Table, extra: bool) -> str:
        """The statement; of several rows with their keys as a table, which is read once."""
        kind, (first, *_) = table.kind, self.pairs
        if len(self.pairs) == 1:
            sets = (f"{n} = {kind.sql(v)}" for n, v in zip(kind.columns, first[1], strict=True))
            return f"UPDATE dbo.{table.name} SET {', '.join(sets)} WHERE {_in(table, [first[0]])}"
        types = [text.partition(" COLLATE") for text in kind.types] * 2
        rows = (
            ", ".join(
                f"CAST({kind.sql(value)} AS {text}){collate}{collation}"
                for value, (text, collate, collation) in zip((*old, *new), types, strict=True)
            )
            for old, new in self.pairs
        )
        names = [f"{when}_{name}" for when in ("old", "new") for name in kind.columns]
        same = " AND ".join(
            f"(t.{name} = m.old_{name} OR t.{name} IS NULL AND m.old_{name} IS NULL)"
            if any(None in old for old, _ in self.pairs)
            else f"t.{name} = m.old_{name}"
            for name in kind.columns
        )
        return (
            f"UPDATE t SET {', '.join(f'{name} = m.new_{name}' for name in kind.columns)}"
            f" FROM dbo.{table.name} AS t JOIN (VALUES {', '.join(f'({row})' for row in rows)})"
            f" AS m ({', '.join(names)}) ON {same}"
        )


Statement = Insert | Update | Delete | Move


def run_all(
    statements: Sequence[Statement],
    tables: Sequence[Table],
    states: Sequence[State],
    extra: Collection[int] = (),
) -> tuple[list[Statement], tuple[State, ...], tuple[int, ...]]:
    """What can be done of them one after the other, the rows afterwards, and recorded changes.

    `extra` are the tables that have that column.
    """
    now, counts, done = list(states), [0] * len(tables), []
    for given in statements:
        statement = given
        table = tables[statement.table]
        if statement.table not in extra:
            statement = _without_extra(statement)
        possible = statement.possible(table, now[statement.table])
        if possible is not None:
            now[statement.table], count = possible.done(table, now[statement.table])
            counts[statement.table] += count
            done.append(possible)
    return done, tuple(now), tuple(counts)


def written_by(
    done: Sequence[Statement], tables: Sequence[Table], states: Sequence[State]
) -> tuple[dict[Key, Values], ...]:
    """Each table's keys that statements change, as the lake shows them, with their last values.

    Of a key that is there afterwards, those that it has; of another one, those it went with.
    `done` is what can be done of them, from these rows on.
    """
    now, found = list(states), [dict[Key, Values]() for _ in tables]
    for statement in done:
        place = statement.table
        table, before = tables[place], now[place]
        now[place], _ = statement.done(table, before)
        for own in {table.kind.canonical(key) for key in keys_of(statement)}:
            old, new = before.get(own), now[place].get(own)
            for row in (old, new):
                # Where rows change places, one may take the very values that were there.
                if row is not None and old != new:
                    found[place][table.kind.shown(row.key)] = row.values
    return tuple(found)


def keys_of(statement: Statement) -> list[Key]:
    """The keys of the rows that it changes, the new ones too."""
    if isinstance(statement, Insert):
        return [row.key for row in statement.rows]
    if isinstance(statement, Move):
        return [key for pair in statement.pairs for key in pair]
    return list(statement.keys)


def _without_extra(statement: Statement) -> Statement:
    if isinstance(statement, Insert):
        return replace(statement, rows=tuple(replace(row, extra=None) for row in statement.rows))
    return replace(statement, extra=None) if isinstance(statement, Update) else statement


def _present(table: Table, state: State, keys: Sequence[Key]) -> list[Key]:
    """Keys that are there, each once."""
    found = {table.kind.canonical(key): key for key in keys}
    return [key for own, key in found.items() if own in state]


def _first(seen: set[Key], key: Key) -> bool:
    if key in seen:
        return False
    seen.add(key)
    return True


def _in(table: Table, keys: Sequence[Key]) -> str:
    """The condition that a row has one of these keys."""
    kind = table.kind
    plain = [key for key in keys if None not in key]
    if len(kind.columns) > 1:
        return " OR ".join(f"({_is(table, key)})" for key in keys)
    (name,) = kind.columns
    tests = [f"{name} IN ({', '.join(kind.sql(key[0]) for key in plain)})"] if plain else []
    return " OR ".join(tests + ([f"{name} IS NULL"] if len(plain) < len(keys) else []))


def _is(table: Table, key: Key) -> str:
    parts = zip(table.kind.columns, key, strict=True)
    return " AND ".join(
        f"{name} IS NULL" if value is None else f"{name} = {table.kind.sql(value)}"
        for name, value in parts
    )


def _int(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _text(value: str | None) -> str:
    return "NULL" if value is None else "N'" + value.replace("'", "''") + "'"
