"""A large table read in chunks while it is written to, killed in every third wave.

200,000 rows here; five million in `make soak`, on both engines.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_assets.contract import Event
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.tables import query
from cdc_assets.silver.apply import apply_changes
from cdc_assets_tests.path import killing
from cdc_assets_tests.path.chunking import events, run_backfill
from cdc_assets_tests.path.helpers import run_sync
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.source import Project, Source

TABLE = "dbo_items"
KILL_EVERY = 3
SEED = 20261130
PAUSE_SECONDS = 0.05
REACH_SECONDS_MAX = 1_800.0
"""A wave of the large ones takes its time."""
SUMS = "COUNT_BIG(*), SUM(CAST(id AS bigint)), SUM(CAST(id % 1000 AS bigint) * v)"
SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    ("engine_name", "rows", "chunks"),
    [
        pytest.param("arrow", 200_000, 12, id="arrow"),
        pytest.param(
            "spark", 200_000, 6, id="spark", marks=[pytest.mark.spark, pytest.mark.timeout(900)]
        ),
        pytest.param("arrow", 5_000_000, 40, id="arrow-soak", marks=[SOAK, pytest.mark.timeout(0)]),
        pytest.param(
            "spark",
            5_000_000,
            40,
            id="spark-soak",
            marks=[SOAK, pytest.mark.spark, pytest.mark.timeout(0)],
        ),
    ],
    indirect=["engine_name"],
)
def test_killed_in_every_third_wave(
    project: Project, rows: int, chunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1 to P5: whatever dies and whatever is written meanwhile, bronze is complete."""
    monkeypatch.setattr(killing, "REACH_SECONDS_MAX", REACH_SECONDS_MAX)
    source = project.source
    fill(source, rows)
    project.tables = {TABLE: {"snapshot": "chunked", "chunk_rows": rows // chunks}}
    project.extra = {"num_partitions": 2}
    run_sync(project)
    with written_to(source, rows):
        kills = 0
        while not run_backfill(project, max_waves=KILL_EVERY - 1).done:
            kills += 1
            kill_at(project, FaultPoint.WAVE_APPENDED, tmp_path / f"{kills}", TABLE,
                    command="backfill")  # fmt: skip
            source.captured()
            run_sync(project)
    assert kills >= chunks // 2 // KILL_EVERY
    assert_complete(project)


def fill(source: Source, rows: int) -> None:
    """dbo.items with so many rows from before capture began, by copies of itself."""
    source.execute(
        "CREATE TABLE dbo.items (id int NOT NULL PRIMARY KEY, v int NOT NULL)",
        "INSERT INTO dbo.items (id, v) VALUES (1, 1)",
    )
    there = 1
    while there < rows:
        more = min(there, rows - there)
        source.execute(
            f"INSERT INTO dbo.items (id, v) SELECT id + {there}, v + {there % 7} FROM dbo.items"
            f" WHERE id <= {more}"
        )
        there += more
    source.enable("items")


@contextmanager
def written_to(source: Source, rows: int) -> Iterator[None]:
    """Changes of every kind all the while: at both ends, in chunks read and in those to come."""
    stop, failed = threading.Event(), []
    chance = random.Random(SEED)

    def write() -> None:
        number = rows
        try:
            while not stop.wait(PAUSE_SECONDS):
                number += 2
                first, second, third = (chance.randint(1, rows) for _ in range(3))
                source.transaction(
                    f"UPDATE dbo.items SET v = v + 1 WHERE id BETWEEN {first} AND {first + 20}",
                    f"DELETE FROM dbo.items WHERE id = {second}",
                    f"INSERT INTO dbo.items (id, v) VALUES ({number}, 5), ({number + 1}, 6)",
                    f"INSERT INTO dbo.items (id, v) VALUES ({-number}, 7)",
                    f"UPDATE dbo.items SET id = {-number - 1} WHERE id = {third}",
                )
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            failed.append(error)

    thread = threading.Thread(target=write, name="writer")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert failed == []


def assert_complete(project: Project) -> None:
    """Each chunk and each change once in bronze, and silver the source."""
    source, database = project.source, project.database()
    source.captured()
    run_sync(project)
    bronze = database.lake.bronze(database.table(TABLE))
    (done,) = events(project, Event.BOOTSTRAP)
    (read,) = query("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM b WHERE `_operation` = 0",
                    b=bronze).to_pylist()  # fmt: skip
    assert read["n"] == read["ids"] == done.rows
    (changes,) = query(
        "SELECT count(*) AS n, count(DISTINCT concat(`_start_lsn`, `_seqval`, `_operation`)) AS d"
        " FROM b WHERE `_operation` <> 0",
        b=bronze,
    ).to_pylist()
    wanted = source.rows(
        f"SELECT COUNT_BIG(*) FROM cdc.{TABLE}_CT"
        f" WHERE [__$start_lsn] > CONVERT(binary(10), '{done.min_lsn}', 1)"
    )
    assert [(changes["n"],), (changes["d"],)] == wanted * 2
    apply_changes(database, TABLE)
    silver = database.lake.silver(database.table(TABLE))
    (found,) = query(
        "SELECT count(*) AS n, sum(CAST(id AS bigint)) AS ids,"
        " sum(CAST(id % 1000 AS bigint) * v) AS vs FROM s",
        s=silver,
    ).to_pylist()
    assert [tuple(map(int, found.values()))] == [
        tuple(map(int, row)) for row in source.rows(f"SELECT {SUMS} FROM dbo.items")
    ]
