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
from cdc_assets.planning.merging import changes_above, merge_texts, rebuild_from
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

    def append(self, *rows: tuple[Any, ...]) -> None:
        """Rows (operation, lsn, command, seqval, *captured); operation 0 belongs to snapshot S."""
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
                _snapshot=lsn(at) if operation == 0 else None,
            )
            values.append(row)
        ensure_table(str(self.folder / "bronze"), BRONZE, {}, columns)
        write_deltalake(
            str(self.folder / "bronze"), pa.Table.from_pylist(values, schema=schema), mode="append"
        )

    def apply(
        self, version: int, rows: str, *, rebuild: bool = False, rank_rows_max: int | None = None
    ) -> ApplyResult:
        columns = silver_columns(self.captured)
        ensure_table(str(self.folder / "silver"), SILVER, {}, columns)
        return self.engine.apply(
            ApplyPlan(
                table="t",
                bronze_uri=str(self.folder / "bronze"),
                bronze_version=DeltaTable(str(self.folder / "bronze")).version(),
                silver_uri=str(self.folder / "silver"),
                columns=columns,
                keys=self.keys,
                texts=merge_texts(columns, self.keys, rows),
                rebuild=rebuild,
                tag=CommitTag("t#apply", version, "{}"),
                limit=RankLimit(rank_rows_max, Lsn.of_int(0)) if rank_rows_max else None,
            )
        )

    def rebuild(self, version: int = 1, rank_rows_max: int | None = None) -> ApplyResult:
        rows = rebuild_from(Lsn.of_int(S))
        return self.apply(version, rows, rebuild=True, rank_rows_max=rank_rows_max)

    def follow(self, version: int, above: int = S) -> ApplyResult:
        return self.apply(version, changes_above(Lsn.of_int(above)))

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


def test_composite_and_text_keys_with_awkward_values(tmp_path: Path, engine: Engine) -> None:
    captured = (Column("a_b", "STRING"), Column("order", "BIGINT"), Column("v", "STRING"))
    table = Table(tmp_path, engine, captured, ("a_b", "order"))
    words = ["it's", 'q"q', "back\\slash", "ü", "", "a%b", "`tick`"]
    table.append(*((0, S, None, None, w, i, "x") for i, w in enumerate(words)))
    table.rebuild()
    table.append(*((4, 11, 1, i, w, i, "y") for i, w in enumerate(words)))
    result = table.follow(2)
    assert result.upserted == len(words)
    assert {v for _, _, v in table.silver()} == {"y"}
    assert len(table.silver()) == len(words)
