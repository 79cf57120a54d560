"""A random history made to happen: the source's statements, the product's runs, the looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_assets import faults
from cdc_assets.cli.wire import wire
from cdc_assets.engines.database import Database
from cdc_assets.errors import AnotherWriterError, CdcError, CommitConflictError, DataLossError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.backfill import backfill
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.lake import Lake as ProductLake
from cdc_assets.silver.apply import apply_tables
from cdc_assets_tests.path.killing import COMMAND_LINE
from cdc_assets_tests.properties.lake import Lake
from cdc_assets_tests.properties.model import Model, Table
from cdc_assets_tests.properties.statements import Statement, run_all
from cdc_assets_tests.properties.steps import (
    Apply,
    At,
    Backfill,
    Beneath,
    Capture,
    Clean,
    Clock,
    Disable,
    End,
    Happening,
    History,
    Moment,
    Step,
    Switch,
    Sync,
    Transaction,
    Work,
)
from cdc_assets_tests.properties.watching import Watch
from cdc_assets_tests.source import Project, Source

ROUNDS_MAX = 8
"""Syncs, backfills and applies after a history, until all of it must be in silver."""

KILL_SECONDS_MAX = 60.0

_NEW_ENTRIES = (
    "SELECT CONVERT(varchar(22), start_lsn, 1), tran_end_time FROM cdc.lsn_time_mapping"
    " WHERE start_lsn > CONVERT(binary(10), '{}', 1) AND tran_id <> 0x00000000000000000000"
    " ORDER BY start_lsn"
)
_NO_LSN = "0x" + "0" * 20
_OTHER_MARK = (22957, 22964)
"""Cleanup's errors for a mark that is below the instance's, or no commit's any more."""


class CrashError(BaseException):
    """The end of a run at a point; no handler of errors catches it."""


class World:
    """One history on a database of its own; `engine` does the product's work unless a step says."""

    def __init__(self, history: History, source: Source, folder: Path, engine: str) -> None:
        self.history = history
        self.source = source
        self.engine = engine
        self.folder = folder
        self.model = Model(history.tables)
        self.lake = Lake(folder / "lake" / "sales")
        self.watches = [Watch(self.model, self.lake, table) for table in history.tables]
        self.extra: set[int] = set()
        self.disabled: set[int] = set()
        self.counts: Counter[str] = Counter()
        self._shift = 0.0
        self._newest = _NO_LSN
        self._lock = threading.Lock()
        self._hooked = False
        self._crashes = 0

    # --- before --------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Iterator[World]:
        """With its tables, and one connection for all that happens at the source."""
        with wire(self.source.server.admin, database=self.source.name) as self._cursor:
            self._prepare()
            try:
                yield self
            finally:
                self._sql("EXEC sandbox.set_clock @shift_seconds = 0", "EXEC sandbox.clear_faults")

    def _sql(self, *texts: str) -> None:
        for text in texts:
            self._cursor.execute(text)

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(text)
        return [tuple(row) for row in self._cursor.fetchall()]

    def _prepare(self) -> None:
        tables = self.history.tables
        for table in tables:
            self._sql(_create(table))
        done, states, _ = run_all(self.history.first_rows, tables, self.model.now)
        self._sql(*(statement.sql(tables[statement.table], extra=False) for statement in done))
        self.model.begin(states)
        for table in tables:
            self.source.enable(table.name)
        self.source.stop_capture()

    def project(self, engine: str = "") -> Project:
        """The product's settings."""
        history, engine = self.history, engine or self.engine
        project = Project(self.folder, self.source, engine)
        for table in history.tables:
            chunked = {"snapshot": "chunked", "chunk_rows": table.chunk_rows}
            project.tables[table.key] = {
                **(chunked if table.chunk_rows else {}),
                **({"keys": list(table.kind.columns)} if table.kind.alternate else {}),
            }
        defaults = {
            "engine": engine,
            "finality": project.finality,
            "on_data_loss": "resnapshot",
            "resnapshot_interval_days": 0,
            "min_headroom_hours": 0,
            **({"max_commits_per_batch": history.commits_max} if history.commits_max else {}),
        }
        project.extra = {
            "defaults": defaults,
            "num_partitions": history.partitions,
            "rows_per_range_min": 5,
        }
        return project

    def database(self, engine: str = "") -> Database:
        """The product's clients, new ones."""
        return self.project(engine).database()

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

    def happen(self, step: Happening) -> None:
        """Something at the source."""
        if isinstance(step, Transaction):
            self._transact(step)
        elif isinstance(step, Capture):
            self._sql(f"EXEC sandbox.capture_now @idle = {int(step.idle)}")
            self._captured()
        elif isinstance(step, Clock):
            self._shift += step.seconds
            self._sql(f"EXEC sandbox.set_clock @shift_seconds = {self._shift}")
            if step.seconds < 0:
                for watch in self.watches:
                    watch.steady = False
        elif isinstance(step, Clean):
            self._clean(step.table)
        elif isinstance(step, Switch):
            self._switch(step.table)
        else:
            self._disable(step.table)

    def _transact(self, step: Transaction) -> None:
        text, finish = self._prepared(step)
        if text:
            self._sql(text)
            finish()

    def _prepared(self, step: Transaction) -> tuple[str, Callable[[], None]]:
        """A transaction's text, "" where nothing of it can be done, and what then is to be noted."""
        tables = self.history.tables
        done, states, counts = run_all(step.statements, tables, self.model.now, self.extra)
        body = "; ".join(self._text(statement) for statement in done)
        if not done:
            return "", lambda: None
        end = "ROLLBACK" if step.rolled_back else "COMMIT"

        def finish() -> None:
            self.counts["changes"] += sum(counts)
            if not step.rolled_back:
                self.model.commit(states, counts)

        return f"SET NOCOUNT ON; BEGIN TRANSACTION; {body}; {end} TRANSACTION", finish

    def _text(self, statement: Statement) -> str:
        table = self.history.tables[statement.table]
        return statement.sql(table, extra=statement.table in self.extra)

    def _captured(self) -> None:
        """Give the model's commits the LSNs and times that the server has given them."""
        entries = self._rows(_NEW_ENTRIES.format(self._newest))
        if entries:
            self._newest = entries[-1][0]
            self.model.captured(entries)

    def _clean(self, number: int) -> None:
        table, watch = self.history.tables[number], self.watches[number]
        mark = self._rows("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
        if mark is None:
            return
        there = watch.read()
        names = [] if number in self.disabled else [table.key]
        names += [_second(table)] if number in self.extra else []
        for name in names:
            text = f"DECLARE @to binary(10); SET @to = CONVERT(binary(10), '{mark}', 1);"
            try:
                self._sql(f"{text} EXEC sys.sp_cdc_cleanup_change_table N'{name}', @to")
            except Exception as error:
                if getattr(error, "number", 0) not in _OTHER_MARK:
                    raise
        lost = {
            commit.lsn
            for commit in self.model.commits
            if commit.lsn and commit.lsn < mark and commit.recorded[number]
        }
        watch.purged |= lost - there
        watch.cleaned = True
        self.counts["purged"] += bool(lost - there)

    def _switch(self, number: int) -> None:
        if number in self.extra:
            return
        table = self.history.tables[number]
        self._sql(f"ALTER TABLE dbo.{table.name} ADD extra int NULL")
        self.source.enable(table.name, instance=_second(table))
        self.extra.add(number)
        self.counts["switch"] += 1

    def _disable(self, number: int) -> None:
        table = self.history.tables[number]
        told = {row["event"] for row in self.lake.events(table)}
        if number in self.disabled or "capture_instance_switched" not in told:
            return
        self._sql(f"EXEC sys.sp_cdc_disable_table N'dbo', N'{table.name}', N'{table.key}'")
        self.disabled.add(number)
        self.counts["disabled"] += 1

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
        environment = {
            **os.environ,
            "CDC_TABLES": str(self.project(step.engine).write()),
            faults.POINT_VARIABLE: str(point),
            faults.FILE_VARIABLE: str(reached),
        }
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND_LINE, *command],
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + KILL_SECONDS_MAX
        while process.poll() is None and not reached.exists():
            assert time.monotonic() < deadline, f"{command} hangs"
            time.sleep(0.02)
        self.counts["killed"] += reached.exists()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
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
                    patch.setattr(ProductLake, name, _then(getattr(ProductLake, name), here, moment))
                yield
        finally:
            self._hooked = False

    @contextmanager
    def _beneath(self, beneath: Beneath | None) -> Iterator[None]:
        """Let a transaction happen while the product reads a table, if it does."""
        if beneath is None:
            yield
            return
        text, finish = self._prepared(beneath.transaction)
        table = self.history.tables[beneath.table]
        if text:
            if beneath.captured:
                text += "; EXEC sandbox.capture_now"
            place = f"cdc.{table.key}_CT" if beneath.changes else f"dbo.{table.name}"
            quoted = text.replace("'", "''")
            self._sql(
                f"EXEC sandbox.fault @kind = N'execute', @table = N'{place}',"
                f" @after = {beneath.nth}, @login = N'{self.source.server.reader_login}',"
                f" @text = N'{quoted}'"
            )
        try:
            yield
        finally:
            if text and not self._rows("EXEC sandbox.faults"):
                self.counts["beneath"] += 1
                finish()
                self._captured()
            self._sql("EXEC sandbox.clear_faults")

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Runs without faults bring all of it into silver, with a verdict that says so."""
        lacking = {}
        for _ in range(ROUNDS_MAX):
            for step in (Clock(2.0), Capture(idle=True), Sync(), *self._left(), Apply()):
                self.do(step)
            self.look()
            found = {w.table.name: w.is_complete() for w in self.watches}
            lacking = {name: text for name, text in found.items() if text}
            if not lacking:
                break
        assert not lacking, "after all, silver is not the source:\n" + "\n".join(
            f"{name}: {text}" for name, text in lacking.items()
        )
        self._is_model()
        for watch in self.watches:
            self.counts.update(watch.counts)

    def _left(self) -> Iterator[Step]:
        """Backfills of the snapshots that are open in chunks."""
        for number, table in enumerate(self.history.tables):
            if any(taken.chunked and not taken.complete for taken in self.lake.snapshots(table)[-1:]):
                yield Backfill(number)

    def _is_model(self) -> None:
        """The server's tables are what the model says: else all looks were at something else."""
        for number, table in enumerate(self.history.tables):
            names = [*table.kind.columns, "n", "note", *(["extra"] if number in self.extra else [])]
            rows = self._rows(f"SELECT {', '.join(names)} FROM dbo.{table.name}")
            width = len(table.kind.columns)
            found = {
                table.kind.shown(tuple(row[:width])): (*row[width:], None)[:3] for row in rows
            }
            assert found == self.model.view(table, self.model.commits[-1])


def _then(function: Callable[..., Any], here: Callable[[object], None], moment: Moment) -> Any:
    """A method of the product's lake that is followed by a moment."""

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        here(moment)
        return found

    return called


def _create(table: Table) -> str:
    kind = table.kind
    columns = ", ".join(
        f"{name} {text} {'NULL' if kind.alternate else 'NOT NULL'}"
        for name, text in zip(kind.columns, kind.types, strict=True)
    )
    names = ", ".join(kind.columns)
    own = f"PRIMARY KEY ({names})"
    if kind.alternate:
        own = f"id int IDENTITY PRIMARY KEY, UNIQUE ({names})"
    return f"CREATE TABLE dbo.{table.name} ({columns}, n int NULL, note nvarchar(20) NULL, {own})"


def _second(table: Table) -> str:
    """The name of a table's second capture instance."""
    return f"{table.name}_v2"


def moved(history: History, *steps: Step) -> History:
    """The same history with other steps."""
    return replace(history, steps=steps)
