"""What must hold of what is kept beyond the rows of now: histories, and rows that are deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.lake import Lake, Record, Taken, key_of, values_of
from cdc_assets_tests.properties.model import Commit, Model, Table
from cdc_assets_tests.properties.states import KeyState, States

SHOWN_MAX = 4
"""States that an error has of each side."""


@dataclass
class Histories:
    """A table's history: it is exactly the states that the model says."""

    model: Model
    lake: Lake
    table: Table
    counts: Counter[str]
    _bases: list[str] = field(default_factory=list)
    """Where it may have begun: one of them, once it has been seen."""
    _version: int | None = None

    def look(
        self,
        row: Record,
        snapshots: Sequence[Taken],
        read: Collection[str],
        seen: dict[str, Commit],
        *,
        steady: bool,
    ) -> None:
        """Raise `AssertionError` for a state that is not as it was; `row` is control's of it."""
        version = self.lake.version(f"history/{self.table.key}")
        if version is None or version == self._version or row.get("snapshot_lsn") is None:
            return
        self._version = version
        taken = [t for t in snapshots if t.complete and t.lsn <= row["snapshot_lsn"]]
        states = States(self.model, self.table, read)
        found = self.lake.history(self.table)
        wrong = {}
        for base in self._bases or [t.lsn for t in taken]:
            since = [t for t in taken if t.lsn >= base]
            skipped = states.unknown(since, seen, steady=steady)
            wanted = Counter(
                _told(state, steady=steady)
                for state in states.of(since, row["applied_lsn"])
                if state.key not in skipped
            )
            theirs = Counter(
                _read(self.table, one, steady=steady)
                for one in found
                if key_of(self.table, one) not in skipped
            )
            if theirs == wanted:
                self._bases = [base]
                self.counts["history"] += 1
                self.counts["states that have ended"] += sum(t[3] is not None for t in theirs)
                return
            more, lacking = (list(c)[:SHOWN_MAX] for c in (theirs - wanted, wanted - theirs))
            wrong[base] = f"it has {more}, and lacks {lacking}"
        raise AssertionError(f"the history of {self.table.name} since one of {wrong}")

    def lacks(self, row: Record, last: Commit) -> str:
        """What is missing for it to reach up to now with a verdict that says so; or ""."""
        verdict = row.get("finalized_until")
        if verdict is None or last.time is None or verdict <= last.time:
            return f"the history's verdict is {verdict}, the last change of {last.time}"
        return ""


def _told(state: KeyState, *, steady: bool) -> tuple[Any, ...]:
    """A state as tuples; without times where the clock was set back."""
    begin, end = state.begin, state.end
    times = (begin.time, end.time if end else None) if steady else ()
    return (state.key, state.values, begin.lsn, end.lsn if end else None, *times)


def _read(table: Table, row: Record, *, steady: bool) -> tuple[Any, ...]:
    names = ("_valid_from_lsn", "_valid_to_lsn", "_valid_from_ts", "_valid_to_ts")
    told = tuple(row[name] for name in (names if steady else names[:2]))
    return (key_of(table, row), values_of(row), *told)


@dataclass
class Marks:
    """A silver that keeps deleted rows: which there are, since when, and as what."""

    model: Model
    lake: Lake
    table: Table
    counts: Counter[str]
    _there: frozenset[Key] = frozenset()
    _table_id: str | None = None

    @property
    def place(self) -> int:
        """The table's place among those of the model."""
        return self.model.number_of(self.table)

    def look(self, silver: Record, read: Collection[str], *, steady: bool) -> None:
        """Raise `AssertionError` for a mark that is wrong, or not there; of control's row."""
        applied, base = silver.get("applied_lsn"), silver.get("snapshot_lsn")
        if applied is None or (base := base or silver.get("open_snapshot_lsn")) is None:
            return
        rows = self.lake.silver_rows(self.table)
        if silver["table_id"] == self._table_id:
            gone = self._there - rows.keys()
            assert not gone, f"silver of {self.table.name} keeps no more: {list(gone)[:SHOWN_MAX]}"
        self._there, self._table_id = frozenset(rows), silver["table_id"]
        others = self.lake.stamps(self.table)
        removed = self._removals(max(applied, base))
        for key, row in rows.items():
            if row["_deleted_at"] is not None:
                self._is_right(key, row, removed.get(key, []), others, steady=steady)
        for key, commits in removed.items():
            last = commits[-1]
            assert last.lsn is not None
            if base < last.lsn <= applied and last.lsn in read and self._is_gone(key, last):
                mark = rows.get(key, {}).get("_start_lsn")
                assert mark is not None, f"{key} was deleted at {last.lsn} and is not kept"
                assert mark >= last.lsn, f"{key} was deleted at {last.lsn}, not {mark}"
                self.counts["marks"] += 1

    def _is_right(
        self,
        key: Key,
        row: Record,
        removed: list[Commit],
        others: Collection[str],
        *,
        steady: bool,
    ) -> None:
        """It is deleted by a change, with what it was then, or found to be gone by a read."""
        lsn, time = row["_start_lsn"], row["_deleted_at"]
        assert time == row["_commit_ts"], f"{key} was deleted at {time} and {row['_commit_ts']}"
        by = next((commit for commit in removed if commit.lsn == lsn), None)
        if by is None or lsn in others:
            assert lsn in others, f"{key} was not deleted at {lsn}"
            return
        wanted = by.written[self.place][key]
        assert values_of(row) == wanted, f"{key} was {wanted}, not {values_of(row)}, at {lsn}"
        assert not steady or time == by.time, f"{key} was deleted at {by.time}, not {time}"

    def _removals(self, upto: str) -> dict[Key, list[Commit]]:
        """By key, the commits up to an LSN that it has gone with."""
        found: dict[Key, list[Commit]] = {}
        for commit in self.model.commits[1:]:
            if commit.lsn is not None and commit.lsn <= upto:
                view = self.model.view(self.table, commit)
                for key in commit.written[self.place]:
                    if key not in view:
                        found.setdefault(key, []).append(commit)
        return found

    def _is_gone(self, key: Key, since: Commit) -> bool:
        """Whether it has not come back, up to now."""
        later = self.model.commits[since.number :]
        return not any(key in self.model.view(self.table, commit) for commit in later)
