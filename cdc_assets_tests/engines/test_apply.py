"""One apply on either engine: ranking, MERGE, transaction (B030-B040 of the public cases).

Bronze is written by hand here, so that every order of changes can be told; the source is no part
of an apply.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import BRONZE, SILVER, Column, bronze_columns, silver_columns
from cdc_assets.engines.door import Engine
from cdc_assets.lake.opening import ensure_table
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.absent import AbsentRange
from cdc_assets.planning.applying import ApplyWork, Position, ToldWave
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.merging import (
    AbsentKeys,
    changes_above,
    merge_texts,
    rebuild_from,
    work_rows,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.plans import ApplyPlan, ApplyResult, CommitTag, RankLimit
from cdc_assets.sqlserver.read import arrow_schema

CAPTURED = (Column("id", "INT"), Column("name", "STRING"), Column("price", "DECIMAL(9,2)"))
KEYS = ("id",)
S = 10
NOON = datetime(2026, 11, 30, 12)


def lsn(number: int) -> str:
    return str(Lsn.of_int(number))


@dataclass
class Table:
    """A bronze and a silver table in a folder, and the engine that applies one to the other."""

    folder: Path
    engine: Engine
    captured: tuple[Column, ...] = CAPTURED
    keys: tuple[str, ...] = KEYS
    keeps_deleted: bool = False

    @property
    def times(self) -> Times:
        return Times.SPARK if self.engine.name == "spark" else Times.DATAFUSION

    def append(self, *rows: tuple[Any, ...], chunk: int | None = None) -> None:
        """Rows (operation, lsn, command, seqval, *captured).

        Operation 0 is a whole snapshot's at that LSN, or with `chunk` the one's at S.
        """
        columns = bronze_columns(self.captured)
        schema = arrow_schema(columns)
        values = []
        for operation, at, command, seqval, *captured in rows:
            row = dict.fromkeys((c.name for c in columns), None)
            row.update(zip((c.name for c in self.captured), captured, strict=True))
            row.update(
                _capture_instance="dbo_t",
                _operation=operation,
                _start_lsn=lsn(at),
                _commit_ts=NOON + timedelta(seconds=at),
                _command_id=command,
                _seqval=None if seqval is None else lsn(seqval),
                _snapshot=lsn(at if chunk is None else S) if operation == 0 else None,
                _chunk=chunk if operation == 0 else None,
            )
            values.append(row)
        ensure_table(str(self.folder / "bronze"), BRONZE, {}, columns)
        write_deltalake(
            str(self.folder / "bronze"), pa.Table.from_pylist(values, schema=schema), mode="append"
        )

    def apply(
        self,
        version: int,
        rows: str,
        *,
        rebuild: bool = False,
        rank_rows_max: int | None = None,
        **more: Any,
    ) -> ApplyResult:
        columns = silver_columns(self.captured, keeps_deleted=self.keeps_deleted)
        ensure_table(str(self.folder / "silver"), SILVER, {}, columns)
        return self.engine.apply(
            ApplyPlan(
                table="t",
                bronze_uri=str(self.folder / "bronze"),
                bronze_version=DeltaTable(str(self.folder / "bronze")).version(),
                silver_uri=str(self.folder / "silver"),
                columns=columns,
                keys=self.keys,
                texts=merge_texts(columns, self.keys, rows, **more),
                rebuild=rebuild,
                tag=CommitTag("t#apply", version, "{}"),
                limit=RankLimit(rank_rows_max, Lsn.of_int(0)) if rank_rows_max else None,
            )
        )

    def rebuild(
        self, version: int = 1, rank_rows_max: int | None = None, at: int = S
    ) -> ApplyResult:
        rows = rebuild_from(Lsn.of_int(at))
        more: dict[str, Any] = {}
        if self.keeps_deleted:
            gone = Offset(Lsn.of_int(at), NOON + timedelta(seconds=at))
            more = {"gone": gone, "times": self.times}
        return self.apply(version, rows, rebuild=True, rank_rows_max=rank_rows_max, **more)

    def follow(self, version: int, above: int = S) -> ApplyResult:
        return self.apply(version, changes_above(Lsn.of_int(above)))

    def waves(
        self, version: int, *waves: ToldWave, applied: int, ranges: tuple[AbsentRange, ...]
    ) -> ApplyResult:
        """The waves of the snapshot at S, whose ranges of the key are known."""
        above, opened = Lsn.of_int(applied), Lsn.of_int(S)
        since = min(above, waves[0].stamp.previous())
        work = ApplyWork(above, since, Position(above, None, opened, 0), waves=waves)
        key = next(c for c in self.captured if c.name == self.keys[0])
        return self.apply(
            version,
            work_rows(work),
            above=above,
            absent=AbsentKeys(key, ranges, {w.stamp: NOON for w in waves}),
            times=self.times,
        )

    def silver(self) -> list[tuple[Any, ...]]:
        names = ", ".join(f"`{c.name}`" for c in self.captured)
        found = query(f"SELECT {names} FROM s", s=DeltaTable(str(self.folder / "silver")))
        return sorted((tuple(r.values()) for r in found.to_pylist()), key=repr)


@pytest.fixture
def table(tmp_path: Path, engine: Engine) -> Table:
    return Table(tmp_path, engine)


def test_rebuild_takes_the_snapshot_and_the_changes_after_it(table: Table) -> None:
    table.append((0, S, None, None, 1, "a", None), (0, S, None, None, 2, "b", None))
    table.append((3, 11, 1, 1, 2, "b", None), (4, 11, 1, 1, 2, "c", None))
    table.append((1, 12, 1, 1, 1, "a", None), (2, 13, 1, 1, 3, "d", None))
    result = table.rebuild()
    assert (result.overtaken, result.upserted, result.deleted) == (False, 2, 0)
    assert table.silver() == [(2, "c", None), (3, "d", None)]


def test_several_changes_of_a_row_in_one_commit(table: Table) -> None:
    """B030, B035, B039: the last image by command, seqval and operation wins."""
    table.append((0, S, None, None, 1, "a", None), (0, S, None, None, 2, "b", None))
    table.rebuild()
    table.append(
        *((3, 11, 1, 1, 1, "a", None), (4, 11, 1, 1, 1, "b", None)),
        *((3, 11, 2, 2, 1, "b", None), (4, 11, 2, 2, 1, "z", None)),
        *((1, 11, 3, 3, 2, "b", None), (2, 11, 4, 4, 2, "y", None)),
        *((2, 11, 5, 5, 7, "x", None), (1, 11, 6, 6, 7, "x", None)),
        (1, 11, 7, 7, 9, "never seen", None),
    )
    assert not table.follow(2).overtaken
    assert table.silver() == [(1, "z", None), (2, "y", None)]


def test_key_updates_as_one_and_two_and_as_three_and_four(table: Table) -> None:
    """B033: the old key goes; a swap in one statement reaches the log as two updates."""
    table.append(*((0, S, None, None, k, f"v{k}", None) for k in (1, 2, 3, 4)))
    table.rebuild()
    table.append((1, 11, 1, 1, 1, "v1", None), (2, 11, 1, 1, 100, "v1", None))
    table.append((3, 12, 1, 1, 2, "v2", None), (4, 12, 1, 1, 200, "v2", None))
    table.append(
        *((3, 13, 1, 1, 3, "v3", None), (4, 13, 1, 1, 3, "v4", None)),
        *((3, 13, 1, 2, 4, "v4", None), (4, 13, 1, 2, 4, "v3", None)),
    )
    table.follow(2)
    assert {key: name for key, name, _ in table.silver()} == {
        100: "v1",
        200: "v2",
        3: "v4",
        4: "v3",
    }


def test_a_null_key_is_one_row(table: Table) -> None:
    """B038: a unique index admits one NULL, and `=` would insert it again at every run."""
    table.append((0, S, None, None, None, "a", None))
    table.rebuild()
    for version, value in ((2, "b"), (3, "c")):
        at = 9 + version
        table.append((3, at, 1, 1, None, "x", None), (4, at, 1, 1, None, value, None))
        table.follow(version, above=8 + version)
    assert table.silver() == [(None, "c", None)]


def test_several_new_rows_of_one_key_are_one(table: Table) -> None:
    """B040: none is matched by a row of silver; in a snapshot's chunks, in changes, and NULL."""
    keys = (1, None, 2)
    for chunk in (0, 1):
        rows = ((0, S + chunk, None, None, k, f"chunk {chunk}", None) for k in keys)
        table.append(*rows, chunk=chunk)
    table.rebuild()
    assert table.silver() == sorted(((k, "chunk 1", None) for k in keys), key=repr)
    for at in (13, 14):
        table.append(*((2, at, 1, n, k, f"new {at}", None) for n, k in enumerate((7, 7, 8))))
    assert table.follow(2, above=12).upserted == 2
    held = [row for row in table.silver() if row[0] in (7, 8)]
    assert held == [(7, "new 14", None), (8, "new 14", None)]


def test_nothing_in_silver_must_not_be_null(tmp_path: Path, engine: Engine) -> None:
    """B147: rows that a MERGE does not match have no value in the columns that it adds."""
    table = Table(tmp_path, engine)
    table.append((0, S, None, None, 1, "a", None), (0, S, None, None, None, "b", None))
    table.rebuild()
    evolved = Table(tmp_path, engine, (*CAPTURED, Column("more", "INT")))
    rows = pa.table({"more": pa.array([5], pa.int32())})
    write_deltalake(str(tmp_path / "bronze"), rows, mode="append", schema_mode="merge")
    evolved.append((4, 11, 1, 1, 1, "a", None, 5), (2, 11, 1, 2, 2, "c", None, None))
    evolved.follow(2)
    assert evolved.silver() == [(1, "a", None, 5), (2, "c", None, None), (None, "b", None, None)]
    for name in ("bronze", "silver"):
        fields = DeltaTable(str(tmp_path / name)).schema().fields
        assert all(field.nullable for field in fields)


def test_applying_again_from_behind_changes_nothing(table: Table) -> None:
    """B037: a replay never brings back a deleted key, nor an older image."""
    table.append((0, S, None, None, 1, "a", None), (0, S, None, None, 2, "b", None))
    table.rebuild()
    table.append((4, 11, 1, 1, 1, "new", None), (1, 12, 1, 1, 2, "b", None))
    table.follow(2)
    again = table.follow(3)
    assert (again.overtaken, again.upserted, again.deleted) == (False, 0, 0)
    assert table.silver() == [(1, "new", None)]


def test_a_call_that_changes_nothing_carries_its_transaction(table: Table) -> None:
    table.append((0, S, None, None, 1, "a", None))
    table.rebuild()
    table.append((1, 11, 1, 1, 5, "never there", None))
    result = table.follow(2)
    assert not result.overtaken
    silver = DeltaTable(str(table.folder / "silver"))
    assert silver.transaction_version("t#apply") == 2
    assert result.version == silver.version()


@pytest.mark.parametrize("version", [1, 3, 7])
def test_a_version_that_is_not_next_is_overtaken(table: Table, version: int) -> None:
    table.append((0, S, None, None, 1, "a", None))
    table.rebuild()
    table.append((4, 11, 1, 1, 1, "b", None))
    assert table.follow(version).overtaken
    assert table.silver() == [(1, "a", None)]


def test_rebuild_removes_keys_that_the_snapshot_lacks(table: Table) -> None:
    """B075: rows deleted in a purged gap have no delete row."""
    table.append((0, 5, None, None, 1, "a", None), (0, 5, None, None, 2, "gone", None))
    table.apply(1, rebuild_from(Lsn.of_int(5)), rebuild=True)
    table.append((0, S, None, None, 1, "a2", None))
    result = table.rebuild(2)
    assert table.silver() == [(1, "a2", None)]
    assert result.deleted == 1


def test_a_rebuild_to_nothing_empties_silver(table: Table) -> None:
    table.append((0, 5, None, None, 1, "a", None))
    table.apply(1, rebuild_from(Lsn.of_int(5)), rebuild=True)
    assert table.rebuild(2).deleted == 1
    assert table.silver() == []


SETTING = "${spark.sql.session.timeZone}"
"""Spark would put a setting's value in its place."""


def test_composite_and_text_keys_with_awkward_values(tmp_path: Path, engine: Engine) -> None:
    captured = (Column("a_b", "STRING"), Column("order", "BIGINT"), Column("v", "STRING"))
    table = Table(tmp_path, engine, captured, ("a_b", "order"))
    words = ["it's", 'q"q', "back\\slash", "ü", "", "a%b", "`tick`", SETTING]
    table.append(*((0, S, None, None, w, i, "x") for i, w in enumerate(words)))
    table.rebuild()
    table.append(*((4, 11, 1, i, w, i, "y") for i, w in enumerate(words)))
    result = table.follow(2)
    assert result.upserted == len(words)
    table.append((4, 12, 1, 1, SETTING, words.index(SETTING), "y"))
    assert table.follow(3, 11).upserted == 1
    assert {v for _, _, v in table.silver()} == {"y"}
    assert len(table.silver()) == len(words)


def test_a_wave_takes_the_keys_that_it_does_not_hold(table: Table) -> None:
    """B068, B075: older images of its range go; newer ones, other ranges and deletes stay.

    Keys 1 and 2 are in the chunk, 2 was deleted since; 3 is gone, and so is the NULL key; 4 was
    written since it was read; 20 is beyond, and of another, unannounced chunk is 21.
    """
    table.append(*((0, 5, None, None, k, f"old{k}", None) for k in (1, 2, 3, 4, 20, None)))
    table.apply(1, rebuild_from(Lsn.of_int(5)), rebuild=True)
    table.append((1, 32, 1, 1, 2, "old2", None), (4, 33, 1, 1, 4, "new4", None))
    table.follow(2)
    table.append((0, 30, None, None, 1, "one", None), (0, 30, None, None, 2, "two", None), chunk=0)
    table.append((0, 30, None, None, 21, "unannounced", None), chunk=1)
    table.append((4, 40, 1, 1, 20, "new20", None))
    wave = ToldWave(0, Lsn.of_int(30), (0,))
    ranges = (AbsentRange(None, 10, wave.stamp),)
    result = table.waves(3, wave, applied=33, ranges=ranges)
    assert (result.upserted, result.deleted) == (2, 2)
    assert [row[:2] for row in table.silver()] == [(1, "one"), (20, "new20"), (4, "new4")]
    again = table.waves(4, wave, applied=33, ranges=ranges)
    assert (again.upserted, again.deleted) == (0, 0)


def test_times_are_ranges_too(tmp_path: Path, engine: Engine) -> None:
    """The first and the last year of SQL Server's, to the microsecond."""
    table = Table(tmp_path, engine, (Column("at", "TIMESTAMP_NTZ"), Column("v", "STRING")), ("at",))
    first, last = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
    inside = [NOON + timedelta(microseconds=n) for n in range(4)]
    table.append(*((0, 5, None, None, at, "old") for at in (first, *inside, last)))
    table.apply(1, rebuild_from(Lsn.of_int(5)), rebuild=True)
    table.append((0, 30, None, None, inside[2], "held"), chunk=0)
    waves = tuple(ToldWave(n, Lsn.of_int(30 + n), (n,)) for n in (0, 1))
    ranges = (
        AbsentRange(inside[1], inside[3], waves[0].stamp),
        AbsentRange(last, None, waves[1].stamp),
    )
    assert table.waves(2, *waves, applied=S, ranges=ranges).deleted == 2
    expected = [(first, "old"), (inside[0], "old"), (inside[2], "held"), (inside[3], "old")]
    assert sorted(table.silver()) == expected
