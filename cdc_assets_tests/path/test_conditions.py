"""The five conditions that make a snapshot in chunks right, looked at in one that meets them all.

Each wave meets changes before its stamp, between stamp and read, and after the read: keys that
come, go, move and come back, below all chunks, above them, in chunks that are read and in those
that are not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.ingest import waves as waves_module
from cdc_assets.lsn import Lsn
from cdc_assets.planning.chunks import ChunkPlan
from cdc_assets.planning.records import FactsRow
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path.chunking import TABLE, chunked, events, run_backfill
from cdc_assets_tests.path.helpers import COLUMNS, once, run_sync
from cdc_assets_tests.source import Project, Server, Source

pytestmark = pytest.mark.sqlserver
CHANGES = f"SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$operation], id FROM cdc.{TABLE}_CT"
BETWEEN = {
    0: "UPDATE dbo.items SET name = N'late' WHERE id = 1; DELETE FROM dbo.items WHERE id = 3",
    1: "UPDATE dbo.items SET id = 90 WHERE id = 5;"
    " INSERT INTO dbo.items (id, name) VALUES (-5, '')",
    2: "DELETE FROM dbo.items WHERE id = 11; INSERT INTO dbo.items (id, name) VALUES (11, N'back')",
}
"""What is committed between the stamp of a wave and its read."""
AFTER = {
    0: "DELETE FROM dbo.items WHERE id = 2; DELETE FROM dbo.items WHERE id = 12",
    1: "UPDATE dbo.items SET id = 12 WHERE id = 1; DELETE FROM dbo.items WHERE id = 90",
    2: "UPDATE dbo.items SET name = N'done' WHERE id = 9; DELETE FROM dbo.items WHERE id = 8",
}


@dataclass(frozen=True)
class Seen:
    """What there was in the end, and the rows of the source when each wave was stamped."""

    project: Project
    at_stamp: tuple[dict[int, str], ...]
    changes: list[tuple[str, int, int]]
    snapshot: Lsn
    plan: ChunkPlan

    @property
    def bronze(self) -> list[dict[str, Any]]:
        return self.project.bronze(TABLE)

    @property
    def chunks(self) -> list[FactsRow]:
        return events(self.project, Event.SNAPSHOT_CHUNK)


@pytest.fixture(scope="module")
def seen(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    source = Source.create(server)
    project = chunked(Project(tmp_path_factory.mktemp("conditions"), source), rows=12)
    at_stamp = []
    end = run_sync(project).outcomes[TABLE].end
    assert end is not None
    for wave in range(3):
        source.execute(f"UPDATE dbo.items SET note = 'before {wave}' WHERE id = {4 * wave + 4}")
        source.captured()
        at_stamp.append(names(source))
        with pytest.MonkeyPatch.context() as patch:
            once(patch, waves_module, "last_bound", lambda text=BETWEEN[wave]: source.execute(text))
            run_backfill(project, max_waves=1)
        source.execute(*AFTER[wave].split("; "))
        source.captured()
        run_sync(project)
    assert run_backfill(project).done
    run_sync(project)
    plan = project.database().lake.plans.plan(project.database().table(TABLE), end.lsn)
    assert plan is not None
    return Seen(project, tuple(at_stamp), source.rows(CHANGES), end.lsn, plan)


def names(source: Source) -> dict[int, str]:
    return dict(source.rows("SELECT id, CONCAT(name, note) FROM dbo.items"))


def test_p1_a_read_sees_every_commit_up_to_its_stamp(seen: Seen) -> None:
    """P1, B068: what came later it may see too; then the change stands in bronze as well."""
    stamps = {row.payload["chunk"]: row.min_lsn for row in seen.chunks}
    waves = {row.payload["chunk"]: row.payload["wave"] for row in seen.chunks}
    later = {(lsn, id_) for lsn, _, id_ in seen.changes}
    for row in seen.bronze:
        if row["_operation"] != 0:
            continue
        stamp = stamps[row["_chunk"]]
        assert row["_start_lsn"] == stamp
        told = f"{row['name']}{row['note'] or ''}"
        is_later = any(lsn > str(stamp) for lsn, id_ in later if id_ == row["id"])
        assert is_later or told == seen.at_stamp[waves[row["_chunk"]]][row["id"]], row["id"]
    assert "before 2" in {row["note"] for row in seen.bronze if row["_operation"] == 0}
    apply_changes(seen.project.database(), TABLE)
    seen.project.assert_identical(TABLE, COLUMNS)


def test_p2_every_stamp_is_at_or_above_s(seen: Seen) -> None:
    """P2: and they never go back, nor do their times."""
    stamps = [row.min_lsn or "" for row in seen.chunks]
    assert stamps == sorted(stamps)
    assert stamps[0] >= str(seen.snapshot)
    rows = sorted((row["_start_lsn"], row["_commit_ts"]) for row in seen.bronze)
    times = [time for _, time in rows]
    assert times == sorted(times)


def test_p3_bronze_holds_every_change_after_s(seen: Seen) -> None:
    """P3: those of keys that no chunk had read yet among them."""
    wanted = Counter(change for change in seen.changes if change[0] > str(seen.snapshot))
    found = [row for row in seen.bronze if row["_operation"] != 0]
    assert Counter((r["_start_lsn"], r["_operation"], r["id"]) for r in found) == wanted
    assert len(wanted) > 20


def test_p4_the_chunks_tile_the_key_space(seen: Seen) -> None:
    """P4: the first is open below, and the last ends above the largest key at the open."""
    chunks = seen.plan.chunks
    assert chunks[0].lower is None
    assert [c.lower for c in chunks[1:]] == [c.upper for c in chunks[:-1]]
    assert chunks[-1].upper == ("13",)
    assert [row.payload["chunk"] for row in seen.chunks] == [chunk.number for chunk in chunks]
    read = Counter(row["id"] for row in seen.bronze if row["_operation"] == 0)
    assert set(read.values()) == {1}, "no key is read twice"
    assert min(read) == 1, "-5 came after chunk 0 was read, as a change"
    assert max(read) <= 12, "90 is above the last chunk, and came as a change"


def test_p5_a_key_that_goes_reaches_bronze_as_a_row(seen: Seen) -> None:
    """P5: deleted, or moved to another key; in a chunk that was read, and in one that was not."""
    gone = {2, 3, 5, 1, 90, 8}
    removed = {row["id"] for row in seen.bronze if row["_operation"] == 1}
    assert gone | {12} <= removed, "12 came back"
    assert gone.isdisjoint(names(seen.project.source))
