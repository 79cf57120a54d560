"""The source as a random history says it must be: plain dictionaries, moved by its statements.

Nothing here asks the product or the server: a commit's LSN and time alone are the server's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cdc_assets_tests.properties.keys import BY_NAME, Key, KeyKind

Values = tuple[Any, ...]
"""A row's other columns: n, note and, once it was added, extra."""

View = dict[Key, Values]
"""Rows by their keys, as the lake shows them."""


@dataclass(frozen=True)
class Row:
    """A row of the source."""

    key: Key
    n: int | None = None
    note: str | None = None
    extra: int | None = None

    @property
    def values(self) -> Values:
        """All but its key."""
        return self.n, self.note, self.extra


State = dict[Key, Row]
"""A table's rows by what SQL Server takes for their key."""


@dataclass(frozen=True)
class Table:
    """A table of a history."""

    name: str
    kind_name: str
    chunk_rows: int | None = None
    """Rows of a chunk; None: its snapshots are whole."""
    scd: bool = False
    """Whether it has a history of its states."""
    soft: bool = False
    """Whether silver keeps its deleted rows."""
    unchecked: bool = False
    """Whether no index says that its alternate key is one."""

    @property
    def kind(self) -> KeyKind:
        """Its key's kind."""
        return BY_NAME[self.kind_name]

    @property
    def key(self) -> str:
        """Its key in the settings."""
        return f"dbo_{self.name}"


@dataclass
class Commit:
    """A transaction that was committed: what it left, and what capture records of it.

    `written` are each table's keys that it changed, with their last values: those that a key is
    left with, or went with. `lsn` and `time` (UTC) are None until capture has moved it. `time` is
    the latest up to it: a clock may be set back.
    """

    number: int
    states: tuple[State, ...]
    touched: tuple[frozenset[Key], ...]
    recorded: tuple[int, ...]
    written: tuple[Mapping[Key, Values], ...] = ()
    lsn: str | None = None
    time: datetime | None = None
    true_time: datetime | None = None


@dataclass
class Model:
    """All tables, commit by commit; the first one is what was there before capture began."""

    tables: tuple[Table, ...]
    commits: list[Commit] = field(default_factory=list)
    _views: dict[int, tuple[State, View]] = field(default_factory=dict)
    """By the state's identity; the state stays with it, so that no other takes its place."""

    @property
    def now(self) -> tuple[State, ...]:
        """Every table's rows."""
        return self.commits[-1].states if self.commits else tuple({} for _ in self.tables)

    def begin(self, states: tuple[State, ...]) -> None:
        """What is there when capture begins, for ever."""
        first = self.commit(states, (0,) * len(self.tables), ({},) * len(self.tables))
        first.lsn, first.time, first.true_time = "0x", datetime.min, datetime.min

    def number_of(self, table: Table) -> int:
        """A table's place."""
        return self.tables.index(table)

    def commit(
        self,
        states: tuple[State, ...],
        recorded: tuple[int, ...],
        written: tuple[Mapping[Key, Values], ...],
    ) -> Commit:
        """A commit that leaves these rows, of so many recorded changes of each table."""
        found = Commit(len(self.commits), states, (), recorded, written)
        found.touched = tuple(
            _touched(self.view(t, self.commits[-1]) if self.commits else {}, self.view(t, found))
            for t in self.tables
        )
        self.commits.append(found)
        return found

    def captured(self, entries: Iterable[tuple[str, datetime]]) -> None:
        """Capture has moved the next commits, under these LSNs and with these times (UTC)."""
        waiting = [commit for commit in self.commits if commit.lsn is None]
        found = list(entries)
        assert len(found) <= len(waiting), f"more commits than there were: {found}"
        for commit, (lsn, time) in zip(waiting, found, strict=False):
            before = self.commits[commit.number - 1].time
            assert before is not None
            commit.lsn, commit.time, commit.true_time = lsn, max(before, time), time

    def last(self, lsn: str) -> Commit:
        """The last commit up to an LSN."""
        return [c for c in self.commits if c.lsn is not None and c.lsn <= lsn][-1]

    def last_before(self, time: datetime) -> Commit:
        """The last commit before a time (UTC)."""
        return [c for c in self.commits if c.time is not None and c.time < time][-1]

    def view(self, table: Table, commit: Commit) -> View:
        """A table's rows after a commit, as the lake shows them."""
        state = commit.states[self.number_of(table)]
        if id(state) not in self._views:
            self._views[id(state)] = (state, view(table, state))
        return self._views[id(state)][1]

    def settled_keys(self, table: Table, time: datetime) -> frozenset[Key]:
        """Keys that changed, all of whose changes are before a time (UTC)."""
        place, early, late = self.number_of(table), set[Key](), set[Key]()
        for commit in self.commits:
            is_early = commit.time is not None and commit.time < time
            (early if is_early else late).update(commit.touched[place])
        return frozenset(early - late)


def view(table: Table, state: State) -> View:
    """Rows as the lake shows them."""
    return {table.kind.shown(row.key): row.values for row in state.values()}


def _touched(before: View, after: View) -> frozenset[Key]:
    if before is after:
        return frozenset()
    return frozenset(key for key, _ in before.items() ^ after.items())


def differences(found: Mapping[Key, Values], wanted: Mapping[Key, Values]) -> str:
    """What differs, in a few lines; "" where nothing does."""
    keys = sorted({key for key, _ in found.items() ^ wanted.items()}, key=repr)
    lines = [f"  {k}: {found.get(k, 'absent')}, not {wanted.get(k, 'absent')}" for k in keys]
    return "\n".join(lines[:8] + (["  …"] if len(lines) > 8 else []))
