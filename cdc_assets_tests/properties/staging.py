"""The source of a random history: what happens there, noted in the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from cdc_assets.cli.wire import wire
from cdc_assets_tests.properties.features import features
from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.lake import Lake
from cdc_assets_tests.properties.model import Model, Table
from cdc_assets_tests.properties.statements import Statement, run_all, written_by
from cdc_assets_tests.properties.steps import (
    Capture,
    Clean,
    Clock,
    Happening,
    History,
    Switch,
    Transaction,
)
from cdc_assets_tests.properties.watching import Watch
from cdc_assets_tests.source import Source

_NEW_ENTRIES = (
    "SELECT CONVERT(varchar(22), start_lsn, 1), tran_end_time FROM cdc.lsn_time_mapping"
    " WHERE start_lsn > CONVERT(binary(10), '{}', 1) AND tran_id <> 0x00000000000000000000"
    " ORDER BY start_lsn"
)
_NO_LSN = "0x" + "0" * 20
_OTHER_MARK = (22957, 22964)
"""Cleanup's errors for a mark that is below the instance's, or no commit's any more."""


class Stage:
    """A history's tables on a database of its own, their model, and what is watched of the lake."""

    def __init__(self, history: History, source: Source, folder: Path) -> None:
        self.history = history
        self.source = source
        self.folder = folder
        self.model = Model(history.tables)
        self.lake = Lake(folder / "lake" / "sales")
        self.watches = [Watch(self.model, self.lake, table) for table in history.tables]
        self.extra: set[int] = set()
        self.disabled: set[int] = set()
        self.counts: Counter[str] = Counter()
        self._gone: list[set[Key]] = [set() for _ in history.tables]
        self._shift = 0.0
        self._newest = _NO_LSN

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """With its tables, and one connection for all that happens at the source."""
        with wire(self.source.server.admin, database=self.source.name) as self._cursor:
            self._prepare()
            try:
                yield self
            finally:
                self.execute(
                    "EXEC sandbox.set_clock @shift_seconds = 0", "EXEC sandbox.clear_faults"
                )

    def execute(self, *texts: str) -> None:
        for text in texts:
            self._cursor.execute(text)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(text)
        return [tuple(row) for row in self._cursor.fetchall()]

    def _prepare(self) -> None:
        tables = self.history.tables
        for table in tables:
            self.execute(_create(table))
        done, states, _ = run_all(self.history.first_rows, tables, self.model.now)
        self.execute(*(statement.sql(tables[statement.table], extra=False) for statement in done))
        self.model.begin(states)
        for table in tables:
            self._enable(table, table.key)
        self.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")

    def _enable(self, table: Table, instance: str) -> None:
        """Capture a table, as `Source.enable` does, on the connection that is there."""
        reader = self.source.server.reader_login
        self.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo',"
            f" @source_name = N'{table.name}', @capture_instance = N'{instance}',"
            " @role_name = NULL, @supports_net_changes = 0;"
            f" GRANT SELECT ON dbo.{table.name} TO [{reader}];"
            f" GRANT SELECT ON cdc.[{instance}_CT] TO [{reader}]"
        )

    def happen(self, step: Happening) -> None:
        """Something at the source."""
        if isinstance(step, Transaction):
            self._transact(step)
        elif isinstance(step, Capture):
            self.execute(f"EXEC sandbox.capture_now @idle = {int(step.idle)}")
            self.note_captured()
        elif isinstance(step, Clock):
            self._shift += step.seconds
            self.execute(f"EXEC sandbox.set_clock @shift_seconds = {self._shift}")
            if step.seconds < 0:
                self.counts["clock back"] += 1
                for watch in self.watches:
                    watch.steady = False
        elif isinstance(step, Clean):
            self._clean(step.table)
        elif isinstance(step, Switch):
            self._switch(step.table)
        else:
            self._disable(step.table)

    def _transact(self, step: Transaction) -> None:
        text, finish = self.prepared(step)
        if text:
            self.execute(text)
            finish()

    def prepared(self, step: Transaction) -> tuple[str, Callable[[], None]]:
        """A transaction's text, "" where nothing of it can be done, and what notes it then."""
        tables, before = self.history.tables, self.model.now
        done, states, counts = run_all(step.statements, tables, before, self.extra)
        body = "; ".join(self._text(statement) for statement in done)
        if not done:
            return "", lambda: None
        end = "ROLLBACK" if step.rolled_back else "COMMIT"

        def finish() -> None:
            self.counts["changes"] += sum(counts)
            if step.rolled_back:
                self.counts["rolled back"] += 1
                return
            self.model.commit(states, counts, written_by(done, tables, before))
            self.counts.update(features(done, tables, self._gone))

        return f"SET NOCOUNT ON; BEGIN TRANSACTION; {body}; {end} TRANSACTION", finish

    def _text(self, statement: Statement) -> str:
        table = self.history.tables[statement.table]
        return statement.sql(table, extra=statement.table in self.extra)

    def note_captured(self) -> None:
        """Give the model's commits the LSNs and times that the server has given them."""
        entries = self.ask(_NEW_ENTRIES.format(self._newest))
        if entries:
            self._newest = entries[-1][0]
            self.model.captured(entries)

    def _clean(self, number: int) -> None:
        table, watch = self.history.tables[number], self.watches[number]
        mark = self.ask("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
        if mark is None:
            return
        there = watch.read()
        names = [] if number in self.disabled else [table.key]
        names += [_second(table)] if number in self.extra else []
        for name in names:
            text = f"DECLARE @to binary(10); SET @to = CONVERT(binary(10), '{mark}', 1);"
            try:
                self.execute(f"{text} EXEC sys.sp_cdc_cleanup_change_table N'{name}', @to")
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
        self.execute(f"ALTER TABLE dbo.{table.name} ADD extra int NULL")
        self._enable(table, _second(table))
        self.extra.add(number)
        self.counts["switch"] += 1

    def _disable(self, number: int) -> None:
        table = self.history.tables[number]
        told = {row["event"] for row in self.lake.events(table)}
        if number in self.disabled or "capture_instance_switched" not in told:
            return
        self.execute(f"EXEC sys.sp_cdc_disable_table N'dbo', N'{table.name}', N'{table.key}'")
        self.disabled.add(number)
        self.counts["disabled"] += 1

    def is_model(self) -> None:
        """The server's tables are what the model says: else all looks were at something else."""
        for number, table in enumerate(self.history.tables):
            names = [*table.kind.columns, "n", "note", *(["extra"] if number in self.extra else [])]
            rows = self.ask(f"SELECT {', '.join(names)} FROM dbo.{table.name}")
            width = len(table.kind.columns)
            found = {table.kind.shown(tuple(row[:width])): (*row[width:], None)[:3] for row in rows}
            assert found == self.model.view(table, self.model.commits[-1])


def _create(table: Table) -> str:
    kind = table.kind
    columns = ", ".join(
        f"{name} {text} {'NULL' if kind.alternate else 'NOT NULL'}"
        for name, text in zip(kind.columns, kind.types, strict=True)
    )
    names = ", ".join(kind.columns)
    own = f"PRIMARY KEY ({names})"
    if kind.alternate:
        own = "id int IDENTITY PRIMARY KEY"
        own += "" if table.unchecked else f", UNIQUE ({names})"
    return f"CREATE TABLE dbo.{table.name} ({columns}, n int NULL, note nvarchar(20) NULL, {own})"


def _second(table: Table) -> str:
    """The name of a table's second capture instance."""
    return f"{table.name}_v2"
