"""A table's history as the model says it must be: each state of each key, and when it held."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.lake import Taken
from cdc_assets_tests.properties.model import Commit, Model, Table, Values


@dataclass(frozen=True)
class Moment:
    """The commit, or the snapshot, at which a state begins or ends."""

    lsn: str
    time: datetime


@dataclass(frozen=True)
class KeyState:
    """A key's values between two moments; those that hold have no end."""

    key: Key
    values: Values
    begin: Moment
    end: Moment | None


@dataclass
class States:
    """What a history holds that began at a snapshot and has taken in further ones since.

    `read` are the LSNs of the commits whose changes are in bronze: nothing but a snapshot tells of
    the others, and that at its own LSN.
    """

    model: Model
    table: Table
    read: Collection[str]

    def of(self, snapshots: Sequence[Taken], applied: str) -> list[KeyState]:
        """All states up to a change; the first of these snapshots is the one it began at."""
        held: dict[Key, tuple[Values, Moment]] = {}
        found: list[KeyState] = []

        def ended(key: Key, end: Moment) -> None:
            values, begin = held.pop(key)
            found.append(KeyState(key, values, begin, end))

        for at, view, keys in self._moments(snapshots, applied):
            for key in keys if keys is not None else {*held, *view}:
                if keys is None and not self._is_news(held.get(key), view.get(key), at):
                    continue
                if key in held:
                    ended(key, at)
                if key in view:
                    held[key] = (view[key], at)
        return found + [KeyState(key, *held[key], None) for key in held]

    def _is_news(
        self, before: tuple[Values, Moment] | None, now: Values | None, at: Moment
    ) -> bool:
        """Whether a snapshot says of a key what was not known, and no change at its LSN says."""
        if before is None:
            return now is not None
        return before[0] != now and before[1].lsn != at.lsn

    def _moments(
        self, snapshots: Sequence[Taken], applied: str
    ) -> Iterator[tuple[Moment, dict[Key, Values], Collection[Key] | None]]:
        """Commits and snapshots in order: the rows then, and the keys that changed; None: any."""
        first, place = snapshots[0].lsn, self.model.number_of(self.table)
        commits = [
            (commit.lsn, 0, commit)
            for commit in self.model.commits
            if commit.lsn is not None
            and first < commit.lsn <= applied
            and commit.lsn in self.read
            and commit.written[place]
        ]
        all_: list[tuple[str, int, Commit | Taken]] = [
            *commits,
            *((taken.lsn, 1, taken) for taken in snapshots),
        ]
        for lsn, _, one in sorted(all_, key=lambda entry: entry[:2]):
            if isinstance(one, Taken):
                view = self.model.view(self.table, self.model.last(lsn))
                yield Moment(lsn, one.time), view, None
            else:
                assert one.time is not None
                yield (
                    Moment(lsn, one.time),
                    self.model.view(self.table, one),
                    one.written[place],
                )

    def unknown(
        self, snapshots: Sequence[Taken], seen: dict[str, Commit], *, steady: bool
    ) -> set[Key]:
        """Keys of which a snapshot's rows do not say how they were at its LSN.

        They were changed between that and the end of its read, by commits that nothing tells of;
        or by any, where the clock was set back, since times tell what a read has seen. `seen` are
        the newest commits when a snapshot was first seen to be complete.
        """
        place = self.model.number_of(self.table)
        return {
            key
            for taken in snapshots
            for commit in self.model.commits[1 : seen[taken.lsn].number + 1]
            if commit.lsn is None or commit.lsn > taken.lsn
            if not steady or commit.lsn not in self.read
            for key in commit.written[place]
        }
