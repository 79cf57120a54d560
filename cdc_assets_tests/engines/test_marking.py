"""Deletes that mark instead of removing (`deletes: soft`), on either engine."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.engines.door import Engine
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.absent import AbsentRange
from cdc_assets.planning.applying import ToldWave
from cdc_assets.planning.merging import changes_above
from cdc_assets_tests.engines.test_apply import NOON, S, Table, lsn


@pytest.fixture
def table(tmp_path: Path, engine: Engine) -> Table:
    return Table(tmp_path, engine, keeps_deleted=True)


def rows(table: Table) -> dict[Any, tuple[str, str, datetime | None]]:
    """Each key's value, LSN and mark; no LSN is another's than its time says."""
    found = query("SELECT * FROM s", s=DeltaTable(str(table.folder / "silver"))).to_pylist()
    for row in found:
        assert row["_deleted_at"] in (None, row["_commit_ts"])
    assert len({row["id"] for row in found}) == len(found)
    return {r["id"]: (r["name"], r["_start_lsn"], r["_deleted_at"]) for r in found}


def at(number: int) -> datetime:
    return NOON + timedelta(seconds=number)


CHANGES: tuple[tuple[Any, ...], ...] = (
    (1, 11, 1, 1, 1, "a", None),
    # The row as a delete tells it lacks what the one before it has: as with a large type.
    *((3, 12, 1, 1, 2, "b", None), (4, 12, 1, 1, 2, "b2", None), (1, 13, 1, 1, 2, None, None)),
    *((2, 14, 1, 1, 7, "came", None), (1, 15, 1, 1, 7, "went", None)),
    *((3, 16, 1, 1, 3, "c", None), (4, 16, 1, 1, 30, "c", None)),
    *((1, 17, 1, 1, 4, "d", None), (2, 18, 1, 1, 4, "again", None)),
    (1, 19, 1, 1, 9, "never seen", None),
)
MARKED = {
    1: ("a", lsn(11), at(11)),
    2: ("b2", lsn(13), at(13)),
    7: ("came", lsn(15), at(15)),
    3: ("c", lsn(16), at(16)),
    30: ("c", lsn(16), None),
    4: ("again", lsn(18), None),
    9: ("never seen", lsn(19), at(19)),
}


@pytest.mark.parametrize("calls", ["one", "many"])
def test_a_deleted_row_keeps_its_last_image(table: Table, calls: str) -> None:
    """B036: however the changes are cut into calls, also from behind: nothing older comes back."""
    if calls == "many" and table.engine.name == "spark":
        pytest.skip("eight MERGEs, of texts that the other engine has run")
    table.append(*((0, S, None, None, k, v, None) for k, v in enumerate("abcd", 1)))
    table.rebuild()
    if calls == "one":
        table.append(*CHANGES)
        assert table.follow(2).deleted == 0
        version = 2
    else:
        commits = sorted({row[1] for row in CHANGES})
        for version, commit in enumerate(commits, 2):
            table.append(*(row for row in CHANGES if row[1] == commit))
            table.follow(version, above=commit - 1)
    assert rows(table) == MARKED
    again = table.apply(version + 1, changes_above(Lsn.of_int(S)))
    assert (again.upserted, again.deleted) == (0, 0)
    assert rows(table) == MARKED
    table.append((2, 30, 1, 1, 1, "back", None))
    table.follow(version + 2, above=20)
    assert rows(table)[1] == ("back", lsn(30), None)


@pytest.mark.parametrize("rank_rows_max", [None, 2])
def test_a_rebuild_marks_what_its_snapshot_lacks(table: Table, rank_rows_max: int | None) -> None:
    """B075: at the snapshot's LSN and time; a mark that is there stays, and NULL is a key, too."""
    if rank_rows_max and table.engine.name == "spark":
        pytest.skip("only the arrow engine goes key range by key range")
    keys = (1, 2, 3, 4, 5, None)
    table.append(*((0, S, None, None, k, f"v{k}", None) for k in keys))
    table.append((1, 11, 1, 1, 2, "v2", None))
    table.rebuild()
    table.append(*((0, 50, None, None, k, f"w{k}", None) for k in (1, 4)))
    table.append((1, 51, 1, 1, 4, "w4", None), (2, 52, 1, 1, 6, "new", None))
    result = table.rebuild(2, rank_rows_max, at=50)
    assert result.deleted == 0
    assert rows(table) == {
        1: ("w1", lsn(50), None),
        2: ("v2", lsn(11), at(11)),
        3: ("v3", lsn(50), at(50)),
        4: ("w4", lsn(51), at(51)),
        5: ("v5", lsn(50), at(50)),
        6: ("new", lsn(52), None),
        None: ("vNone", lsn(50), at(50)),
    }
    version = DeltaTable(str(table.folder / "silver")).transaction_version("t#apply") or 0
    table.append((2, 60, 1, 1, 3, "back", None))
    table.follow(version + 1, above=52)
    assert rows(table)[3] == ("back", lsn(60), None)


def test_a_wave_marks_the_keys_that_it_does_not_hold(table: Table) -> None:
    """At its stamp; a key that its delete has marked stays as it is."""
    table.append(*((0, 5, None, None, k, f"old{k}", None) for k in (1, 2, 3)))
    table.rebuild(at=5)
    table.append((1, 20, 1, 1, 2, "old2", None))
    table.follow(2)
    table.append((0, 30, None, None, 1, "one", None), chunk=0)
    wave = ToldWave(0, Lsn.of_int(30), (0,))
    ranges = (AbsentRange(None, 10, wave.stamp),)
    table.waves(3, wave, applied=20, ranges=ranges)
    assert rows(table) == {
        1: ("one", lsn(30), None),
        2: ("old2", lsn(20), at(20)),
        3: ("old3", lsn(30), NOON),
    }
    # What deleted it comes later than the wave that found it gone: that is said then.
    table.append((1, 40, 1, 1, 3, "old3", None))
    table.follow(4, above=20)
    assert rows(table)[3] == ("old3", lsn(40), at(40))
