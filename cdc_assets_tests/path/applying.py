"""Applies that die at a fault point, and the same ones that do not.

Where such a death is to be looked at, the lake is put aside first: an apply of the copy shows what
the call would have done, and each further one begins from there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.cli.sync import database_of
from cdc_assets.faults import FaultPoint
from cdc_assets.lake.tables import query
from cdc_assets.silver.apply import apply_changes, apply_tables
from cdc_assets.silver.by_name import Applied
from cdc_assets.silver.by_name import apply_changes as apply_named
from cdc_assets_tests.path.killing import crashing, kill_at
from cdc_assets_tests.path.streaming import session
from cdc_assets_tests.source import Project

TABLE = "dbo_items"
PROGRAM = "from cdc_assets_tests.path.applying import main; main()"
"""An apply of dbo.items in a process of its own, as `killing.kill_at` runs it."""


@dataclass(frozen=True)
class Call:
    """A way to call an apply: in a process of its own, whose first argument is `word`, and here."""

    program: str
    word: str
    here: Callable[[Project], object]


def main() -> None:
    """What `PROGRAM` does; its arguments are any word and the database's key."""
    _, _, key = sys.argv
    apply_changes(database_of(key, []), TABLE)


def by_name() -> None:
    """What `BY_NAME` does; its arguments are any word and the database's key."""
    _, _, key = sys.argv
    apply_places(None, Path(os.environ["CDC_TABLES"]).parent / "lake" / key)


def apply_places(spark: Any, lake: Path) -> Applied:
    """The public call on a database's folder."""
    return apply_named(
        spark,
        f"{lake}/bronze/{TABLE}",
        f"{lake}/silver/{TABLE}",
        capture_instance=TABLE,
        control_table=f"{lake}/_cdc/control",
        facts_table=f"{lake}/_cdc/facts",
        granularity="second",
    )


def _marking(project: Project) -> None:
    # Late: the fast tests must run where no PySpark is installed.
    from cdc_assets.engines.spark import engine  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "DELETION_VECTORS_BYTES_MIN", 0)
        apply_changes(project.database(), TABLE)


APPLY = Call(PROGRAM, "apply", lambda project: apply_changes(project.database(), TABLE))
"""As the assets call it."""
BY_NAME = Call(
    "from cdc_assets_tests.path.applying import by_name; by_name()",
    "apply",
    lambda project: apply_places(session(), project.folder / "lake" / project.key),
)
"""The public call on the places of the same tables: without a session, and here with one."""
MARKING = Call(
    f"import cdc_assets.engines.spark.engine as e; e.DELETION_VECTORS_BYTES_MIN = 0; {PROGRAM}",
    "apply",
    _marking,
)
"""An apply that takes a silver of any size for a large one, whose MERGEs mark rows."""


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
    """Applies of a project's lake as it is when this is made, each dying and run again.

    `by` is the engine that works, the project's own by default. Where it is told, Spark's die here,
    by an exception that nothing catches, so that the JVM serves the next one: between two durable
    writes nothing of it is under way.
    """

    def __init__(self, project: Project, by: str = "") -> None:
        self.project = worked_by(project, by) if by else project
        self._dies = crash_at if by == "spark" else kill_call_at
        self._before = project.folder / "before"
        shutil.rmtree(self._before, ignore_errors=True)
        shutil.copytree(project.folder / "lake", self._before)
        self.expected = self._unkilled()

    def _unkilled(self) -> Told:
        """What a call comes to that nobody kills, by the engine that is quick."""
        (folder := self.project.folder / "twin").mkdir(exist_ok=True)
        twin = replace(worked_by(self.project, "arrow"), folder=folder)
        self._put(twin)
        outcome = apply_tables(twin.database(), [TABLE])[TABLE]
        assert outcome.error is None
        return Told.of(twin)

    def at(self, points: Iterable[FaultPoint], call: Call = APPLY) -> None:
        """From the same lake, at one point after the other: the rerun comes to the same."""
        for point in points:
            self._put(self.project)
            self._dies(self.project, point, call)
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


def worked_by(project: Project, engine: str) -> Project:
    """The same project with this engine."""
    extra = dict(project.extra)
    if "defaults" in extra:
        extra["defaults"] = {**extra["defaults"], "engine": engine}
    return replace(project, engine=engine, extra=extra)


def kill_call_at(project: Project, point: FaultPoint, call: Call) -> None:
    """SIGKILL of a call in a process of its own."""
    reached = project.folder / "reached"
    reached.unlink(missing_ok=True)
    kill_at(project, point, reached, command=call.word, program=call.program)


def crash_at(project: Project, point: FaultPoint, call: Call) -> None:
    """The end of a call in this process."""
    with crashing(point):
        call.here(project)
