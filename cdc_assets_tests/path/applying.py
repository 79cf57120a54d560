"""Applies in processes of their own, which are killed, and the same ones that are not.

Where a kill is to be looked at, the lake is put aside first: an apply of the copy shows what the
call would have done, and each further kill begins from there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_assets.cli.sync import database_of
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.tables import query
from cdc_assets.silver.apply import apply_tables
from cdc_assets.silver.by_name import Applied, apply_changes
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.path.streaming import session
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
PROGRAM = "from cdc_assets_tests.path.applying import main; main()"
"""An apply of dbo.items in a process of its own, as `killing.kill_at` runs it."""
_LIMIT = "DELETION_VECTORS_BYTES_MIN"
BY_NAME = "from cdc_assets_tests.path.applying import by_name; by_name()"
"""The public call, on the places of the same tables, by the engine that it is given."""
MARKING = (
    f"import cdc_assets.engines.spark.engine as e; e.DELETION_VECTORS_BYTES_MIN = 0; {PROGRAM}"
)
"""An apply that takes a silver of any size for a large one, whose MERGEs mark rows."""


def main() -> None:
    """What `PROGRAM` does; its arguments are any word and the database's key."""
    _, _, key = sys.argv
    found = apply_tables(database_of(key, []), [TABLE])[TABLE]
    if found.error is not None:
        raise found.error


def by_name() -> None:
    """What `BY_NAME` does; its arguments are an engine and the database's key."""
    _, engine, key = sys.argv
    lake = Path(os.environ["CDC_TABLES"]).parent / "lake" / key
    apply_places(session() if engine == "spark" else None, lake)


def apply_places(spark: Any, lake: Path) -> Applied:
    """The public call on a database's folder."""
    return apply_changes(
        spark,
        f"{lake}/bronze/{TABLE}",
        f"{lake}/silver/{TABLE}",
        capture_instance=TABLE,
        control_table=f"{lake}/_cdc/control",
        facts_table=f"{lake}/_cdc/facts",
        granularity="second",
    )


@dataclass(frozen=True)
class Told:
    """What silver, history and control hold of a table, without what two equal calls differ in."""

    silver: list[tuple[Any, ...]]
    history: list[tuple[Any, ...]]
    control: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, project: Project) -> Told:
        """As they are now."""
        database = project.database()
        lake, name = database.lake, database.table(TABLE)
        rows = lake.control.read()
        return cls(
            _rows(lake.silver(name)),
            _rows(lake.history(name)),
            {
                of: (
                    row.applied_lsn,
                    row.snapshot_lsn,
                    row.open_snapshot_lsn,
                    row.snapshot_wave,
                    row.end_lsn,
                    row.finalized_until,
                )
                for of, row in rows.items()
            },
        )


def _rows(table: Any) -> list[tuple[Any, ...]]:
    if table is None:
        return []
    return sorted(
        (tuple(r.values()) for r in query("SELECT * FROM t", t=table).to_pylist()), key=repr
    )


class Killed:
    """Applies of a project's lake as it is when this is made, each killed and run again."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._before = project.folder / "before"
        shutil.rmtree(self._before, ignore_errors=True)
        shutil.copytree(project.folder / "lake", self._before)
        self.expected = self._unkilled()

    def _unkilled(self) -> Told:
        """What a call comes to that nobody kills, by the engine that is quick."""
        of = self.project
        (folder := of.folder / "twin").mkdir(exist_ok=True)
        twin = Project(folder, of.source, "arrow", of.tables, of.finality, of.extra, of.key)
        self._put(twin)
        outcome = apply_tables(twin.database(), [TABLE])[TABLE]
        assert outcome.error is None
        return Told.of(twin)

    def at(self, points: Iterable[FaultPoint], program: str = PROGRAM, word: str = "apply") -> None:
        """From the same lake, at one point after the other: the rerun comes to the same."""
        for point in points:
            self._put(self.project)
            reached = self.project.folder / "reached"
            reached.unlink(missing_ok=True)
            kill_at(self.project, point, reached, command=word, program=program)
            self._assert_claims_nothing(point)
            outcome = apply_tables(self.project.database(), [TABLE])[TABLE]
            assert outcome.error is None
            assert Told.of(self.project) == self.expected, point

    def _assert_claims_nothing(self, point: FaultPoint) -> None:
        """A table that is about to be empty, or is, carries no verdict."""
        layer, _, place = point.partition(".")
        if place in ("forgotten", "created"):
            row = self.project.database().lake.control.read().get(f"{layer}/{TABLE}")
            assert row is None or row.finalized_until is None, point

    def _put(self, project: Project) -> None:
        lake = project.folder / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(self._before, lake)
