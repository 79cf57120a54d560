"""A random history made to happen: the product's runs among what happens, and the looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cdc_assets import faults
from cdc_assets.engines.database import Database
from cdc_assets.errors import AnotherWriterError, CdcError, CommitConflictError, DataLossError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.lake import Lake as ProductLake
from cdc_assets.settings.load import load_settings
from cdc_assets.settings.model import DatabaseSettings
from cdc_assets.silver.apply import apply_tables
from cdc_assets_tests.path.killing import CrashError, kill, started
from cdc_assets_tests.properties.staging import Stage
from cdc_assets_tests.properties.steps import (
    Apply,
    At,
    Backfill,
    Beneath,
    Capture,
    Clock,
    End,
    Happening,
    History,
    Moment,
    Step,
    Sync,
    Work,
)
from cdc_assets_tests.source import Project, Source

ROUNDS_MAX = 8
"""Syncs, backfills and applies after a history, until all of it must be in silver."""

KILL_SECONDS_MAX = 60.0

READERS_EVERY = 10
"""Of so many histories one is looked at with a Delta reader, too."""


class World(Stage):
    """One history on a database of its own; `engine` does the product's work unless a step says."""

    def __init__(self, history: History, source: Source, folder: Path, engine: str) -> None:
        super().__init__(history, source, folder)
        self.engine = engine
        self._lock = threading.Lock()
        self._hooked = False
        self._crashes = 0
        self._settings: dict[str, DatabaseSettings] = {}

    def project(self, engine: str = "") -> Project:
        """The product's settings."""
        history, limits, engine = self.history, self.history.limits, engine or self.engine
        project = Project(self.folder, self.source, engine)
        for table in history.tables:
            chunked = {"snapshot": "chunked", "chunk_rows": table.chunk_rows}
            project.tables[table.key] = {
                **(chunked if table.chunk_rows else {}),
                **({"keys": list(table.kind.columns)} if table.kind.alternate else {}),
                **({"keys_unchecked": True} if table.unchecked else {}),
                **({"scd": 2} if table.scd else {}),
                **({"deletes": "soft"} if table.soft else {}),
            }
        defaults = {
            "engine": engine,
            "finality": project.finality,
            "on_data_loss": "resnapshot",
            "resnapshot_interval_days": 0,
            "min_headroom_hours": 0,
            **({"max_commits_per_batch": limits.commits_max} if limits.commits_max else {}),
        }
        project.extra = {
            "defaults": defaults,
            "num_partitions": limits.partitions,
            "rows_per_range_min": 5,
            "arrow_rank_rows_max": limits.rank_rows_max,
            # That the server is asked for its zone has its own tests, and is asked at every look.
            "source_time_zone": "UTC",
        }
        return project

    def database(self, engine: str = "") -> Database:
        """The product's clients, new ones, of settings that stay as they are."""
        project = self.project(engine)
        if project.engine not in self._settings:
            found = load_settings(project.write())
            self._settings[project.engine] = found.databases[project.key]
        return Database.of(project.key, self._settings[project.engine])

    # --- what happens --------------------------------------------------------------------------

    def play(self) -> None:
        """All steps with a look after each run, and then what must be reached in the end."""
        for step in self.history.steps:
            self.do(step)
            if isinstance(step, Work):
                self.look()
        self.finish()

    def look(self) -> None:
        """Look at all tables."""
        for watch in self.watches:
            watch.look()

    def do(self, step: Step) -> None:
        """One step."""
        if isinstance(step, Happening):
            self.happen(step)
            return
        if isinstance(step, Backfill) and self.history.tables[step.table].chunk_rows is None:
            return
        at = step.at
        if at is not None and at.what is End.KILL:
            self._kill(step, at.point)
            return
        with self._beneath(step.beneath if not isinstance(step, Apply) else None):
            self._crashing(step)

    def _crashing(self, step: Work) -> None:
        run = {Sync: self._sync, Backfill: self._backfill, Apply: self._apply}[type(step)]
        before = self._crashes
        with self._hooks(step.at):
            try:
                run(step)  # type: ignore[operator]
            except BaseException:
                # One that crosses delta-rs comes back as another.
                if self._crashes == before:
                    raise
        if self._crashes > before:
            for watch in self.watches:
                watch.uncertain = True
            return
        if isinstance(step, Apply):
            for watch in self.watches:
                watch.uncertain = False

    # --- the product's runs --------------------------------------------------------------------

    def _sync(self, step: Sync) -> None:
        self.counts["sync"] += 1
        database = self.database(step.engine)
        if step.resnapshot is None:
            report = sync(database)
        else:
            # A person waits for an LSN of its own; here one comes first.
            self.happen(Capture(idle=True))
            report = sync(database, [self.history.tables[step.resnapshot].key], resnapshot=True)
        for outcome in report.failed:
            assert outcome.error is not None
            self._allow(step, outcome.error)

    def _backfill(self, step: Backfill) -> None:
        self.counts["backfill"] += 1
        table, watch = self.history.tables[step.table], self.watches[step.table]
        try:
            found = backfill(self.database(step.engine), table.key, max_waves=step.waves)
            self.counts[f"backfill {found.state}"] += 1
        except DataLossError:
            if not watch.cleaned:
                raise
        except CdcError as error:
            self._allow(step, error)

    def _apply(self, step: Apply) -> None:
        self.counts["apply"] += 1
        database = self.database(step.engine)
        outcomes = apply_tables(database, list(database.settings.tables))
        for outcome in outcomes.values():
            if outcome.error is not None:
                self._allow(step, outcome.error)
            self.counts["rebuilt"] += outcome.rebuilt
            self.counts["overtaken"] += outcome.overtaken

    def _allow(self, step: Work, error: CdcError) -> None:
        """Raise an error, unless another run beside this one may have been first."""
        beside = step.at is not None and not isinstance(step.at.what, End)
        if not (beside and isinstance(error, (CommitConflictError, AnotherWriterError))):
            raise error

    def _kill(self, step: Work, point: FaultPoint | Moment) -> None:
        """The same in another process, killed at the point if it gets there."""
        reached = self.folder / f"reached-{self.counts['kill']}"
        self.counts["kill"] += 1
        command = ["sync", "sales"]
        if isinstance(step, Backfill):
            command = ["backfill", "sales", self.history.tables[step.table].key]
        armed = {
            "CDC_TABLES": str(self.project(step.engine).write()),
            faults.POINT_VARIABLE: str(point),
            faults.FILE_VARIABLE: str(reached),
        }
        process = started(command, armed, reached.with_suffix(".output"))
        deadline = time.monotonic() + KILL_SECONDS_MAX
        try:
            while process.is_alive() and not reached.exists():
                assert time.monotonic() < deadline, f"{command} hangs"
                time.sleep(0.02)
        finally:
            kill(process)
        self.counts["killed"] += reached.exists()
        for watch in self.watches:
            watch.uncertain = True

    @contextmanager
    def _hooks(self, at: At | None) -> Iterator[None]:
        """Let something happen when a run reaches a point."""
        if at is None or self._hooked:
            yield
            return
        left = [at.nth]

        def here(point: object) -> None:
            with self._lock:
                if point != at.point:
                    return
                left[0] -= 1
                if left[0] != 0:
                    return
            if at.what is End.CRASH:
                self._crashes += 1
                self.counts[f"crash {at.point}"] += 1
                raise CrashError(point)
            assert not isinstance(at.what, End)
            self.counts[f"beside {at.point}"] += 1
            for step in at.what:
                self.do(step)

        self._hooked = True
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(faults, "reach", here)
                for name, moment in (("silver", Moment.LOOKED), ("bronze", Moment.PINNED)):
                    patch.setattr(
                        ProductLake, name, _then(getattr(ProductLake, name), here, moment)
                    )
                yield
        finally:
            self._hooked = False

    @contextmanager
    def _beneath(self, beneath: Beneath | None) -> Iterator[None]:
        """Let a transaction happen while the product reads a table, if it does."""
        if beneath is None:
            yield
            return
        text, finish = self.prepared(beneath.transaction)
        table = self.history.tables[beneath.table]
        if text:
            if beneath.captured:
                text += "; EXEC sandbox.capture_now"
            place = f"cdc.{table.key}_CT" if beneath.changes else f"dbo.{table.name}"
            quoted = text.replace("'", "''")
            self.execute(
                f"EXEC sandbox.fault @kind = N'execute', @table = N'{place}',"
                f" @after = {beneath.nth}, @login = N'{self.source.server.reader_login}',"
                f" @text = N'{quoted}'"
            )
        try:
            yield
        finally:
            if text and not self.ask("EXEC sandbox.faults"):
                self.counts["beneath"] += 1
                finish()
                self.note_captured()
            self.execute("EXEC sandbox.clear_faults")

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Runs without faults bring all of it into silver, with a verdict that says so."""
        lacking = {}
        for _ in range(ROUNDS_MAX):
            # A snapshot's read is before the verdict that is waited for.
            for step in (*self._left(), Clock(2.0), Capture(idle=True), Sync(), Apply()):
                self.do(step)
            self.look()
            found = {w.table.name: w.is_complete() for w in self.watches}
            lacking = {name: text for name, text in found.items() if text}
            if not lacking:
                break
        assert not lacking, "after all, silver is not the source:\n" + "\n".join(
            f"{name}: {text}" for name, text in lacking.items()
        )
        self.is_model()
        if self.history.seed % READERS_EVERY == 0:
            self.lake.assert_readers_agree()
        for watch in self.watches:
            self.counts.update(watch.counts)
            self.counts[f"key {watch.table.kind_name}"] += 1
            for taken in self.lake.snapshots(watch.table):
                kind = "chunked" if taken.chunked else "whole"
                self.counts[f"snapshot {kind}"] += 1
                self.counts["snapshot for a purged gap"] += taken.closes

    def _left(self) -> Iterator[Step]:
        """Backfills of the snapshots that are open in chunks."""
        for number, table in enumerate(self.history.tables):
            if any(
                taken.chunked and not taken.complete for taken in self.lake.snapshots(table)[-1:]
            ):
                yield Backfill(number)


def _then(function: Callable[..., Any], here: Callable[[object], None], moment: Moment) -> Any:
    """A method of the product's lake that is followed by a moment."""

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        here(moment)
        return found

    return called
