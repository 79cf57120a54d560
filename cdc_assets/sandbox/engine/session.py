"""A session: one login's connection, its transaction, and the statements it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from cdc_assets.sandbox.engine import failures, faults
from cdc_assets.sandbox.engine.changefunctions import read_on
from cdc_assets.sandbox.engine.context import Context, Options
from cdc_assets.sandbox.engine.interpreter import Interpreter
from cdc_assets.sandbox.engine.locks import Patience, StaleError
from cdc_assets.sandbox.engine.procedures import arguments_of, parameter_value
from cdc_assets.sandbox.engine.resolver import Resolver
from cdc_assets.sandbox.engine.temporary import keep_table_variables, table_variables
from cdc_assets.sandbox.engine.translate import translate
from cdc_assets.sandbox.engine.victim import SessionVictim
from cdc_assets.sandbox.engine.work import Savepoint, Work
from cdc_assets.sandbox.language.selects import QueryBinder
from cdc_assets.sandbox.language.sources import Bound
from cdc_assets.sandbox.results import (
    Failed,
    Parameter,
    Result,
    SqlError,
    TransactionChange,
)

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.backend import Engine

BATCH_ROWS = 65_536
_SNAPSHOT_LEVELS = frozenset({"SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE"})


class EngineSession:
    """Runs batches; implements `results.Session`."""

    def __init__(self, engine: Engine, context: Context, home: str) -> None:
        self.engine = engine
        self.context = context
        self.work: Work | None = None
        self.reading: frozenset[int] = frozenset()
        """Object ids of the result set that is being sent, for the counters."""
        self.victim = SessionVictim(self)
        """What planted faults do to it."""
        self._home = home
        self._reader: pa.RecordBatchReader | None = None
        self._cancelled = threading.Event()
        self._cut: SqlError | None = None
        self._interpreter = Interpreter(self)

    @property
    def database(self) -> str:
        """The current database."""
        return self.context.database

    @database.setter
    def database(self, name: str) -> None:
        self.context.database = name

    # --- the seam ------------------------------------------------------------------------------

    def begin_request(self) -> None:
        """Forget an attention to an earlier request."""
        self._cancelled.clear()

    def execute(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Result]:
        """Run a batch; a syntax error anywhere in it runs nothing of it."""
        self.engine.counters.text(self.context.login.name, text)
        given = {p.name.lower(): parameter_value(p) for p in parameters}
        outputs = [p.name.lower() for p in parameters if p.output]
        yield from self.translated(lambda: self._interpreter.batch(text, given, outputs))

    def call(self, procedure: str, parameters: Sequence[Parameter]) -> Iterator[Result]:
        """Run a procedure by name."""
        yield from self.translated(
            lambda: self._interpreter.procedure(procedure, arguments_of(parameters))
        )

    def translated(self, run: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """Results with DuckDB's errors turned into SQL Server's, to the batch's end."""
        try:
            yield from run()
        except failures.Abort as abort:
            if self.context.doomed:
                self.abandon()
            raise abort.error from abort.error.__cause__
        except duckdb.Error as error:
            raise self.failed(error) from error
        finally:
            self.close_reader()
            # Not at the beginning: an attention may be earlier than the statement it is for.
            self._cancelled.clear()
        if self.context.doomed:
            self.abandon()
            yield Failed(failures.left_uncommittable())

    def failed(self, error: duckdb.Error) -> SqlError:
        """The SQL Server error for it; DuckDB's transaction, which it ended, is begun anew."""
        self.close_reader()
        if self.work is not None:
            try:
                self.work.undo()
            except SqlError as worse:
                self.abandon()
                return worse
        return translate(error)

    def begin(self, name: str | None = None) -> None:
        """Begin a transaction."""
        self.context.transaction.begin(name)

    def commit(self) -> None:
        """Commit; nested ones only count down. Raises Msg 3902 without one."""
        if not self.context.transactions:
            raise SqlError(
                3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."
            )
        if self.context.doomed:
            raise failures.uncommittable()
        if self.context.transactions > 1:
            self.context.transaction.count -= 1
            return
        self.close_reader()
        try:
            self.finish_work()
        except BaseException:
            keep_table_variables(self, {})
            self.context.transaction.end("rollback")
            raise
        self.context.transaction.end("commit")

    def rollback(self, name: str | None = None) -> None:
        """Roll everything back, or to a savepoint. Raises Msg 3903 without a transaction."""
        if not self.context.transactions:
            raise SqlError(
                3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."
            )
        if name is None or self.context.transaction.is_outermost(name):
            self.abandon()
            return
        if self.context.doomed:
            raise failures.no_way_back()
        point = self.context.transaction.return_to(name)
        self.close_reader()
        if point is None or self.work is None:
            self._end_work()  # nothing was begun when it was set
        else:
            kept = table_variables(self)
            self._undo(self.work, point, broken=False)
            keep_table_variables(self, kept)

    def save(self, name: str) -> None:
        """Set a savepoint. Raises Msg 628 without a transaction."""
        if self.context.doomed:
            raise failures.uncommittable()
        self.close_reader()
        # Beginning DuckDB's transaction for it would fix what is read from here on.
        point = self.work.savepoint() if self.work is not None and self.work.open else None
        self.context.transaction.save(name, point)

    def transaction_changes(self) -> Sequence[TransactionChange]:
        """What began and ended since the last call."""
        return self.context.transaction.take_changes()

    def abandon(self) -> None:
        """Roll everything back, if there is anything."""
        self.close_reader()
        self.context.doomed = False
        self._end_work()
        self.context.transaction.end("rollback")

    def _end_work(self) -> None:
        work, self.work = self.work, None
        if work is not None:
            kept = table_variables(self) if work.several and work.open else {}
            work.rollback()
            if work.several:
                keep_table_variables(self, kept)
        self.context.changed_catalog = None

    def reset(self, *, keep_transaction: bool = False) -> None:
        """The state after login."""
        if not keep_transaction:
            self.abandon()
        self.close_reader()
        self._drop_temporary()
        self.context.options = Options()
        self.context.variables = {}
        self.context.database = self._home

    def cancel(self) -> None:
        """Stop the running statement soon; called from another thread."""
        self._cancelled.set()
        self.context.connection.interrupt()

    def close(self) -> None:
        """Roll back and give up everything held."""
        self.context.temporary.clear()  # they end with the connection
        self.abandon()
        self.context.connection.close()
        self.engine.closed(self)

    # --- transactions --------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Work]:
        """The transaction a change runs in: the open one, or one of its own.

        An error leaves an open transaction as it was before the change; what else it does, the
        statement's outcome says.
        """
        self.close_reader()
        if self.context.doomed:
            raise failures.uncommittable()
        own = not self.context.transactions
        if own and self.context.options.implicit_transactions:
            self.begin()
            own = False
        work = self.begin_work()
        point = work.savepoint()
        try:
            yield work
        except (SqlError, duckdb.Error) as error:
            if own:
                self._end_work()
                raise
            self._undo(work, point, broken=not isinstance(error, SqlError))
            if isinstance(error, SqlError):
                raise
            raise translate(error) from error
        except StaleError:
            # A row was changed by another before this statement could: it begins anew, by `change`.
            if own:
                self._end_work()
            else:
                self._undo(work, point, broken=True)
            raise
        except BaseException:
            self.abandon()
            raise
        self.context.changed_catalog = work.current
        if own:
            self.finish_work()

    @contextmanager
    def writing_alone(self) -> Iterator[Work]:
        """As `writing`; capture and other commits wait while a transaction of its own runs.

        For what changes rows that capture changes too: SQL Server's locks make one wait there.
        """
        context = self.context
        own = not context.transactions and not context.options.implicit_transactions
        with context.store.commit_lock if own else nullcontext(), self.writing() as work:
            yield work

    def _undo(self, work: Work, point: Savepoint, *, broken: bool) -> None:
        try:
            work.undo(point, broken=broken)
        except SqlError:
            self.abandon()
            raise
        self.context.changed_catalog = work.current

    def begin_work(self) -> Work:
        """The DuckDB transaction, begun if none is open."""
        if self.work is None or not self.work.open:
            self.work = Work(
                self.context.store,
                self.context.connection,
                self._patience(),
                self.context.temporary,
                several=bool(self.context.transactions),
                fixed=self.context.options.isolation in _SNAPSHOT_LEVELS,
            )
        self.context.changed_catalog = self.work.current
        return self.work

    def _patience(self) -> Patience:
        context = self.context
        return Patience(
            lambda: context.options.lock_timeout,
            self.check_cancelled,
            lambda: faults.deadlock(context.process_id),
        )

    def begin_temporary(self, name: str) -> None:
        """Before a change of #t: a rollback takes it back, unlike that of a table variable."""
        if name.startswith("#") and self.context.transactions:
            self.begin_work()
        if self.work is not None and self.work.open:
            self.work.keep_keys()  # it stages its rows where theirs still are

    def finish_work(self) -> None:
        """Commit the DuckDB transaction, and capture if capture is due with each commit."""
        work, self.work = self.work, None
        self.context.changed_catalog = None
        if work is None or not work.open:
            return
        try:
            changed = work.commit()
        except SqlError:
            self.context.transaction.end("rollback")
            raise
        for database in changed:
            self.engine.capture.committed(database)

    def prepare_read(self) -> None:
        """Begin what a read needs: under SNAPSHOT and above it fixes what is seen."""
        self.close_reader()
        context = self.context
        if context.options.implicit_transactions and not context.transactions:
            self.begin()
        if context.transactions and context.options.isolation in _SNAPSHOT_LEVELS:
            self.begin_work()

    def hold(self) -> None:
        """Keep what is read from now on as it is until the transaction ends."""
        if self.context.transactions:
            self.begin_work().fix()

    # --- reading -------------------------------------------------------------------------------

    def binder(self) -> QueryBinder:
        """A binder for one statement."""
        self.context.now_utc = self.context.store.clock.utc()
        return QueryBinder(Resolver(self.context), self.context.collation)

    def stream(
        self, bound: Bound, objects: frozenset[int], *, scan: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a bound query, batch by batch, in bounded memory.

        `scan` says that rows of a change table pass one by one, so that cleanup in the middle is
        seen; all other reads keep to the rows of their beginning (row versioning).
        """
        later = self.victim.before_read(objects, streams=True)
        self._cut = None
        reader = self._open(bound.sql)
        self.reading = objects
        self.engine.counters.statement(self.context.login.name, objects)
        batches: Iterator[pa.RecordBatch] = iter(reader)
        if later:
            again = (lambda: iter(self._open(read_on(bound.sql)))) if scan else None
            batches = self.victim.cut(batches, later, again)
        return self._batches(batches)

    def _open(self, sql: str) -> pa.RecordBatchReader:
        self._reader = self.context.connection.stream(sql, BATCH_ROWS)
        return self._reader

    def _batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        try:
            for batch in batches:
                self.check_cancelled()
                count += batch.num_rows
                yield batch
            self.context.row_count = count
        except SqlError as error:
            self._cut = error
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if isinstance(error, ConnectionError):
                raise
            plain = error if isinstance(error, duckdb.Error) else duckdb.Error(str(error))
            self._cut = self.failed(plain)
            raise self._cut from error
        finally:
            self.close_reader()

    def end_of_rows(self) -> None:
        """Raise the error that ended the last result set; whoever sent its rows has seen it."""
        cut, self._cut = self._cut, None
        if cut is not None:
            raise cut

    def check_cancelled(self) -> None:
        """Raise where an attention came."""
        if self._cancelled.is_set():
            raise SqlError(0, "Operation cancelled by user.", 11)

    def close_reader(self) -> None:
        """Give up the rows not read yet: DuckDB runs one query per connection."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _drop_temporary(self) -> None:
        for name, table in list(self.context.temporary.items()):
            self.context.connection.execute(f"DROP TABLE IF EXISTS {table.physical}")
            del self.context.temporary[name]

    def drop_variables(self) -> None:
        """Drop the batch's table variables."""
        for name in [n for n in self.context.temporary if n.startswith("@")]:
            table = self.context.temporary.pop(name)
            self.context.connection.execute(f"DROP TABLE IF EXISTS {table.physical}")
