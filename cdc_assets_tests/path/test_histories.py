"""Histories that must end right, with SIGKILL between any two of their durable writes.

Each is what happened before, how the run is started that is killed, and the points it passes.
The numbers are those of the plan of quality: 1 a quiet bootstrap, 2 a person's re-snapshot, 3 a
loss healed by itself, 8 an emptied table, 11 control gone, 14 an instance re-created.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_assets.faults import FaultPoint
from cdc_assets_tests.path.helpers import COLUMNS, change_items, clean_up, load
from cdc_assets_tests.path.killing import kill_at, kill_case
from cdc_assets_tests.path.verdicts import assert_right
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver
TABLE = "dbo_items"
RESNAPSHOT = ("--resnapshot",)
SNAPSHOT = (FaultPoint.SNAPSHOT_OPENED, FaultPoint.SNAPSHOT_APPENDED)
AFTERWARDS = (FaultPoint.FACTS_WRITTEN, FaultPoint.SILVER_MERGED)


def quiet(_: Project) -> None:
    """A brand-new database on which nothing has happened since."""


def busy(items: Project) -> None:
    load(items)
    change_items(items.source)


def purged(items: Project) -> None:
    busy(items)
    newest = items.source.captured()
    clean_up(items.source)
    items.source.execute("UPDATE dbo.items SET name = N'kept' WHERE id = 1")
    items.source.captured(minimum=newest)
    heal(items)


def heal(items: Project) -> None:
    items.extra = {"defaults": {"engine": items.engine, "on_data_loss": "resnapshot"}}


def emptied(items: Project) -> None:
    busy(items)
    items.source.execute("DELETE FROM dbo.items")
    items.source.captured()


def without_control(items: Project) -> None:
    busy(items)
    shutil.rmtree(items.database().name.control_uri)


def recreated(items: Project) -> None:
    busy(items)
    items.source.execute(
        "EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'",
        "UPDATE dbo.items SET name = N'unseen' WHERE id = 2",
    )
    items.source.enable("items")
    items.source.execute("UPDATE dbo.items SET name = N'seen' WHERE id = 1")
    items.source.captured()
    heal(items)


@dataclass(frozen=True)
class History:
    before: Callable[[Project], None]
    points: tuple[FaultPoint, ...]
    options: tuple[str, ...] = ()


HISTORIES = {
    "1 quiet bootstrap": History(
        quiet, (*SNAPSHOT, FaultPoint.FACTS_WRITTEN, FaultPoint.SILVER_CREATED)
    ),
    "2 a person's re-snapshot": History(busy, (*SNAPSHOT, *AFTERWARDS), RESNAPSHOT),
    "3 loss": History(purged, (FaultPoint.LOSS_RECORDED, *SNAPSHOT, *AFTERWARDS)),
    "8 emptied": History(emptied, (*SNAPSHOT, *AFTERWARDS), RESNAPSHOT),
    "11 control gone": History(without_control, (FaultPoint.BRONZE_APPENDED, *AFTERWARDS)),
    "14 re-created": History(recreated, (FaultPoint.LOSS_RECORDED, *SNAPSHOT, *AFTERWARDS)),
}
ON_SPARK = ("3 loss", FaultPoint.LOSS_RECORDED)
"""Elsewhere the engines are not asked, or asked as in `test_crashes`."""
CASES = [
    kill_case(engine, point, name, name=name)
    for name, history in HISTORIES.items()
    for point in history.points
    for engine in ("arrow", "spark")
    if engine == "arrow" or (name, point) == ON_SPARK
]


@pytest.mark.parametrize(("engine_name", "point", "name"), CASES, indirect=["engine_name"])
def test_history(items: Project, name: str, point: FaultPoint, tmp_path: Path) -> None:
    history = HISTORIES[name]
    history.before(items)
    kill_at(items, point, tmp_path / "reached", *history.options)
    change_items(items.source, base=500)
    load(items)
    assert_right(items, COLUMNS)
    facts = items.database().lake.facts
    batches = [row for row in facts.batches(f"bronze/{TABLE}") if row.rows]
    assert len({row.batch_id for row in batches}) == len(batches)
    opened = [row for row in facts.events() if row.event == "snapshot_open"]
    done = [row for row in facts.events() if row.event in ("bootstrap", "resnapshot")]
    assert [row.max_lsn for row in opened] == [row.max_lsn for row in done]
