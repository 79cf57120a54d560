"""What must hold whenever somebody looks at the lake, whatever has happened up to then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cdc_assets_tests.properties.keeping import Histories, Marks
from cdc_assets_tests.properties.lake import (
    Chunk,
    Lake,
    Record,
    Taken,
    key_of,
    place_of,
    reduced,
)
from cdc_assets_tests.properties.model import Commit, Model, Table, View, differences


@dataclass
class Watch:
    """One table's promises: what was seen of it, and what must be true at every later look.

    `purged` are the commits that cleanup took before they were read, and `cleaned` says that it
    came past the table's position at all. `uncertain`: a run died after its MERGE, so silver may
    be further than its position says.
    """

    model: Model
    lake: Lake
    table: Table
    steady: bool = True
    """Whether the server's clock was never set back."""
    purged: set[str] = field(default_factory=set)
    cleaned: bool = False
    uncertain: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """How often each promise was put to the test."""
    _places: set[Any] = field(default_factory=set)
    _verdicts: dict[str, datetime] = field(default_factory=dict)
    _positions: dict[str, str] = field(default_factory=dict)
    _silver_version: int | None = None
    _complete_at: dict[str, Commit] = field(default_factory=dict)
    """The newest commit when a snapshot was first seen to be complete."""
    _bronze_version: int | None = None

    def __post_init__(self) -> None:
        of = (self.model, self.lake, self.table, self.counts)
        self._histories, self._marks = Histories(*of), Marks(*of)

    # --- what there is -------------------------------------------------------------------------

    @property
    def place(self) -> int:
        """The table's place among those of the model."""
        return self.model.number_of(self.table)

    def changes(self) -> list[Record]:
        """Bronze's changes."""
        return [row for row in self.lake.bronze(self.table) if row["_operation"] != 0]

    def read(self) -> set[str]:
        """The LSNs of the commits that bronze holds changes of."""
        return {row["_start_lsn"] for row in self.changes()}

    def look(self) -> None:
        """Raise `AssertionError` for a promise that is broken."""
        snapshots = self.lake.snapshots(self.table)
        for taken in snapshots:
            if taken.complete:
                self._complete_at.setdefault(taken.lsn, self.model.commits[-1])
        bronze = self.lake.control("bronze", self.table)
        silver = self.lake.control("silver", self.table)
        self._each_change_once()
        self._nothing_left_out(bronze, snapshots)
        self._bronze_at_its_verdict(bronze, snapshots)
        self._never_backwards("bronze", bronze, ("end_lsn", "changed_lsn"))
        self._silver_at_its_verdict(silver)
        self._silver_at_its_position(silver, snapshots)
        self._waves(silver, snapshots)
        self._never_backwards("silver", silver, ("applied_lsn", "snapshot_lsn"))
        self._kept(silver, snapshots)

    # --- bronze --------------------------------------------------------------------------------

    def _each_change_once(self) -> None:
        version = self.lake.version(f"bronze/{self.table.key}")
        if version == self._bronze_version:
            return
        self._bronze_version = version
        rows = self.lake.bronze(self.table)
        places = Counter(place_of(row) for row in rows if row["_operation"] != 0)
        assert max(places.values(), default=1) == 1, f"twice: {places.most_common(3)}"
        # A row that moves meanwhile may be in two chunks, and so may a key of another index.
        is_own = not self.table.kind.alternate
        chunks = [row for row in rows if row["_chunk"] is not None and is_own]
        taken = Counter((r["_snapshot"], r["_chunk"], key_of(self.table, r)) for r in chunks)
        assert max(taken.values(), default=1) == 1, f"twice in one chunk: {taken.most_common(3)}"
        commits = {c.lsn: c for c in self.model.commits if c.lsn is not None}
        for lsn, count in Counter(lsn for lsn, *_ in places).items():
            assert lsn in commits, f"bronze has changes of {lsn}, which no commit has"
            wanted = commits[lsn].recorded[self.place]
            assert count == wanted, f"bronze has {count} changes of {lsn}, not {wanted}"
        verdict = self._verdicts.get("bronze")
        for row in rows:
            if row["_operation"] == 0:
                continue
            commit, time = commits[row["_start_lsn"]], row["_commit_ts"]
            if verdict is not None and place_of(row) not in self._places:
                assert time >= verdict, f"{row} came after the verdict {verdict}"
                self.counts["arrivals"] += 1
            if self.steady:
                assert time == commit.time, f"{row} was committed at {commit.time}"
            assert commit.true_time is not None
            assert time >= commit.true_time
        assert self._places <= set(places), "bronze has lost changes"
        self._places = set(places)

    def _nothing_left_out(self, bronze: Record, snapshots: list[Taken]) -> None:
        """Every commit up to the position is there, from the S on at which the changes start."""
        end, start = bronze.get("end_lsn"), _start(snapshots)
        if end is None or start is None:
            return
        there, closing = self.read(), [t.lsn for t in snapshots if t.moves and t.closes]
        assert self.cleaned or not closing, "a gap is told of, and cleanup took nothing unread"
        for commit in self.model.commits:
            if commit.lsn is None or not start < commit.lsn <= end:
                continue
            if commit.recorded[self.place]:
                assert commit.lsn in there, f"bronze is at {end} and has not got {commit.lsn}"
                assert commit.lsn not in self.purged

    def _bronze_at_its_verdict(self, bronze: Record, snapshots: list[Taken]) -> None:
        """Its changes before the verdict, on its newest snapshot before it, are the source then."""
        verdict = bronze.get("finalized_until")
        whole = [t for t in snapshots if t.complete and verdict and t.time < verdict]
        if not whole or whole[-1].lsn < (_start(snapshots) or ""):
            return  # The changes start anew at one that is not before it, or not complete.
        base = whole[-1].lsn
        rows = [
            row
            for row in self.lake.bronze(self.table)
            if (row["_operation"] == 0 and row["_snapshot"] == base)
            or (row["_operation"] and row["_start_lsn"] > base and row["_commit_ts"] < verdict)
        ]
        found = reduced(self.table, rows)
        then = self.model.last_before(verdict)
        self._settled("bronze", found, verdict)
        if self.steady and self._complete_at[base].number <= then.number:
            wrong = differences(found, self.model.view(self.table, then))
            assert not wrong, f"bronze before its verdict {verdict} is not the source:\n{wrong}"
            self.counts["bronze as of its verdict"] += 1

    def _settled(self, what: str, found: View, verdict: datetime) -> None:
        """Every key whose last change is before the verdict stands so."""
        keys = self.model.settled_keys(self.table, verdict)
        wanted = self.model.view(self.table, self.model.commits[-1])
        found = {key: values for key, values in found.items() if key in keys}
        wrong = differences(found, {k: v for k, v in wanted.items() if k in keys})
        assert not wrong, f"{what}: keys last changed before the verdict {verdict}:\n{wrong}"
        self.counts[f"{what}, key by key"] += 1

    # --- silver --------------------------------------------------------------------------------

    def _silver_at_its_verdict(self, silver: Record) -> None:
        verdict, applied = silver.get("finalized_until"), silver.get("applied_lsn")
        if verdict is None:
            return
        self._settled("silver", self.lake.silver(self.table), verdict)
        if verdict == self._verdicts.get("silver"):
            return
        assert applied is not None
        for commit in self.model.commits:
            if commit.recorded[self.place] and commit.time is not None and commit.time < verdict:
                assert commit.lsn is not None
                base = silver.get("snapshot_lsn") or ""
                assert commit.lsn <= max(applied, base), f"{verdict} claims {commit.lsn}"
        version = silver["verdict_version"]
        self._is_source("silver at its verdict", self.lake.silver(self.table, version), [applied])

    def _silver_at_its_position(self, silver: Record, snapshots: list[Taken]) -> None:
        """Silver is the source as of its applied LSN, once no snapshot's read was ahead of it."""
        version = self.lake.version(f"silver/{self.table.key}")
        applied, seen = silver.get("applied_lsn"), self._silver_version
        if version is None or version == seen or applied is None:
            return
        self._silver_version = version
        if not snapshots or not snapshots[-1].complete:
            return
        if silver["snapshot_lsn"] != snapshots[-1].lsn:
            return
        then = self.model.last(applied)
        if self._complete_at[snapshots[-1].lsn].number > then.number and not self._quiet_since(
            then, self._complete_at[snapshots[-1].lsn]
        ):
            return
        heads = [applied, *([max(self.read(), default=applied)] if self.uncertain else [])]
        self._is_source("silver at its position", self.lake.silver(self.table), heads)

    def _quiet_since(self, then: Commit, now: Commit) -> bool:
        """Whether the table was not changed between two commits."""
        between = self.model.commits[then.number + 1 : now.number + 1]
        return not any(commit.touched[self.place] for commit in between)

    def _is_source(self, what: str, found: View, lsns: list[str]) -> None:
        wrong = [
            differences(found, self.model.view(self.table, self.model.last(lsn))) for lsn in lsns
        ]
        assert not all(wrong), f"{what} {lsns[0]} is not the source:\n{wrong[0]}"
        self.counts[what] += 1

    def _waves(self, silver: Record, snapshots: list[Taken]) -> None:
        """What silver has of the waves of an open snapshot is the source, key by key.

        Each of their keys is as it was at some time since silver's position: a chunk's read may be
        ahead of that. Where ranges are deleted by, a key that is not there is one of them.
        """
        opened, wave = silver.get("open_snapshot_lsn"), silver.get("snapshot_wave")
        applied = silver.get("applied_lsn")
        is_open = snapshots and snapshots[-1].lsn == opened and not snapshots[-1].complete
        if not is_open or wave is None or self.uncertain:
            return
        assert opened is not None
        chunks = [c for c in self.lake.chunks(self.table, opened) if c.wave <= wave]
        numbers = {chunk.number for chunk in chunks}
        since = self.model.last(max(opened, applied or opened)).number
        views = [self.model.view(self.table, c) for c in self.model.commits[since:]]
        found = self.lake.silver(self.table)
        keys = {
            key_of(self.table, row)
            for row in self.lake.bronze(self.table)
            if row["_snapshot"] == opened and row["_chunk"] in numbers
        }
        if self.table.kind.order is not None:
            every = set(found).union(*views)
            keys |= {key for key in every if _within(self.table, key[0], chunks)}
        for key in keys:
            seen = [view.get(key) for view in views]
            own = found.get(key)
            assert own in seen, f"{key} of the waves up to {wave} is {own} in silver, not {seen}"
        self.counts["waves"] += bool(keys)

    # --- what is kept --------------------------------------------------------------------------

    def _kept(self, silver: Record, snapshots: list[Taken]) -> None:
        """Deleted rows, and the states of all."""
        if self.table.soft and not self.uncertain:
            self._marks.look(silver, self.read(), steady=self.steady)
        if not self.table.scd:
            return
        row = self.lake.control("history", self.table)
        self._never_backwards("history", row, ("applied_lsn", "snapshot_lsn"))
        verdict, reached = row.get("finalized_until"), _reached(row)
        for commit in self.model.commits[1:]:
            if verdict and commit.recorded[self.place] and commit.time and commit.time < verdict:
                assert commit.lsn is not None
                assert commit.lsn <= reached, f"the history's verdict claims {commit.lsn}"
        if not self.uncertain:
            given = (row, snapshots, self.read(), self._complete_at)
            self._histories.look(*given, steady=self.steady)

    def _never_backwards(self, layer: str, row: Record, names: Collection[str]) -> None:
        verdict, before = row.get("finalized_until"), self._verdicts.get(layer)
        if before is not None:
            assert verdict is not None, f"the verdict of {layer} is gone"
            assert verdict >= before, f"the verdict of {layer} went back from {before} to {verdict}"
        if verdict is not None:
            self._verdicts[layer] = verdict
        for name in names:
            place, value = f"{layer}.{name}", row.get(name)
            old = self._positions.get(place)
            assert old is None or (value is not None and value >= old), f"{place}: {old} → {value}"
            if value is not None:
                self._positions[place] = value

    # --- the end -------------------------------------------------------------------------------

    def is_complete(self) -> str:
        """What is missing for silver to be the source now, with a verdict that says so; or ""."""
        silver = self.lake.control("silver", self.table)
        first, *later = self.model.commits
        last = [first, *(c for c in later if c.touched[self.place])][-1]
        verdict = silver.get("finalized_until")
        if verdict is None or last.time is None or verdict <= last.time:
            return f"silver's verdict is {verdict}, its last change of {last.time}"
        kept = self.lake.control("history", self.table)
        if self.table.scd and (lacking := self._histories.lacks(kept, last)):
            return lacking
        return differences(
            self.lake.silver(self.table), self.model.view(self.table, self.model.commits[-1])
        )


def _reached(row: Record) -> str:
    """The LSN up to which a table has all changes, as control says."""
    return max(row.get("applied_lsn") or "", row.get("snapshot_lsn") or "")


def _start(snapshots: list[Taken]) -> str | None:
    """The S from which on every change must be there."""
    return max((taken.lsn for taken in snapshots if taken.moves), default=None)


def _within(table: Table, value: Any, chunks: list[Chunk]) -> bool:
    """Whether a key lies in one of the chunks."""
    order = table.kind.order
    assert order is not None
    return any(
        (c.lower is None or order(c.lower) <= value) and (c.upper is None or value < order(c.upper))
        for c in chunks
    )
