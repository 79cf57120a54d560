"""EXEC sandbox.*: what a real server has no procedure for. Administrators only."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.sandbox.engine import backups
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.clock import iana
from cdc_assets.sandbox.engine.faults import KINDS, Fault
from cdc_assets.sandbox.engine.metadata import named_object
from cdc_assets.sandbox.engine.procedures import Call, Run
from cdc_assets.sandbox.language import types
from cdc_assets.sandbox.language.values import TICKS_PER_SECOND
from cdc_assets.sandbox.results import Result, SqlError


def _counters(call: Call) -> Iterator[Result]:
    """Per login: connections, statements, rows."""
    call.declare()
    yield made.result(
        (
            ("login", types.SYSNAME),
            ("connections", types.BIGINT),
            ("statements", types.BIGINT),
            ("rows", types.BIGINT),
        ),
        [
            (login, counts.connections, counts.statements, counts.rows)
            for login, counts in call.session.engine.counters.logins()
        ],
    )


def _table_counters(call: Call) -> Iterator[Result]:
    """Per login and table: statements that read it, rows they sent."""
    call.declare()
    catalog = call.context.catalog
    rows = []
    for login, number, counts in call.session.engine.counters.objects():
        table = catalog.table_by_id(number)
        if table is not None:
            database = catalog.database(table.database).name
            rows.append((login, database, table.schema, table.name, counts.statements, counts.rows))
    yield made.result(
        (
            ("login", types.SYSNAME),
            ("database", types.SYSNAME),
            ("schema", types.SYSNAME),
            ("table", types.SYSNAME),
            ("statements", types.BIGINT),
            ("rows", types.BIGINT),
        ),
        rows,
    )


def _reset_counters(call: Call) -> Iterator[Result]:
    call.declare()
    call.session.engine.counters.reset()
    yield from ()


def _trace(call: Call) -> Iterator[Result]:
    """Keep the texts of @login's batches from now on; without @login nobody's."""
    call.declare("@login")
    call.session.engine.counters.trace(call.text("@login"))
    yield from ()


def _traced(call: Call) -> Iterator[Result]:
    """The traced login's batches, in their order."""
    call.declare()
    texts = call.session.engine.counters.texts()
    yield made.result(
        (("place", types.INT), ("text", types.nvarchar(-1))), list(enumerate(texts, start=1))
    )


def _fault(call: Call) -> Iterator[Result]:
    """Plant a fault for the next statements that touch a table (any without @table).

    It strikes before the statement takes its snapshot, or after exactly @rows rows of its result.
    """
    call.declare(
        "@kind", "@table", "@login", "@rows", "@seconds", "@number", "@text", "@times", "@after"
    )
    kind = call.required("@kind").lower()
    if kind not in KINDS:
        raise SqlError(50000, f"@kind must be one of {', '.join(KINDS)}.")
    if kind == "execute":
        call.required("@text")
    name = call.text("@table")
    table = named_object(call.context, name) if name is not None else None
    if name is not None and table is None:
        raise SqlError(208, f"Invalid object name '{name}'.")
    call.session.engine.faults.plant(
        Fault(
            kind,
            table.id if table else None,
            call.text("@login"),
            call.number("@rows", 0) or 0,
            call.real("@seconds"),
            call.number("@number", 50000) or 50000,
            call.text("@text", "") or "",
            call.number("@times", 1) or 1,
            call.number("@after", 0) or 0,
            call.context.database,
        )
    )
    yield from ()


def _clear_faults(call: Call) -> Iterator[Result]:
    call.declare()
    call.session.engine.faults.clear()
    yield from ()


def _faults(call: Call) -> Iterator[Result]:
    """Those that have not struck yet."""
    call.declare()
    yield made.result(
        (
            ("kind", types.SYSNAME),
            ("object_id", types.INT),
            ("login", types.SYSNAME),
            ("times", types.INT),
        ),
        [(f.kind, f.object, f.login, f.times) for f in call.session.engine.faults.waiting()],
    )


def _capture_now(call: Call) -> Iterator[Result]:
    """One capture step of the current database; @idle = 1 writes an idle entry if all is done."""
    call.declare("@idle")
    call.session.close_reader()
    engine = call.session.engine
    moved = engine.capture.catch_up(call.context.current.id, idle=bool(call.number("@idle", 0)))
    yield made.result((("commits", types.INT),), [(moved,)])


def _set_capture(call: Call) -> Iterator[Result]:
    """@interval_seconds between steps (0: with each commit), @idle_seconds till an idle entry."""
    call.declare("@interval_seconds", "@idle_seconds")
    capture = call.session.engine.capture
    if call.given("@interval_seconds"):
        capture.interval_seconds = call.real("@interval_seconds")
    if call.given("@idle_seconds"):
        capture.idle_seconds = call.real("@idle_seconds")
    yield from ()


def _set_clock(call: Call) -> Iterator[Result]:
    """@zone (a Windows name), and how far from the true time: @shift_seconds, or @utc for now."""
    call.declare("@zone", "@shift_seconds", "@utc")
    store = call.context.store
    zone = call.text("@zone")
    if zone is not None:
        iana(zone)
        store.clock.zone = zone
    if call.given("@shift_seconds"):
        store.clock.shift = int(call.real("@shift_seconds") * TICKS_PER_SECOND)
    moment = call.ticks("@utc")
    if moment is not None:
        store.clock.shift += moment - store.clock.utc()
    call.session.close_reader()
    store.keep_clock()
    yield from ()


def _backup(call: Call) -> Iterator[Result]:
    """Keep the current database as it is now, as @name."""
    call.declare("@name")
    name = call.required("@name")
    call.session.close_reader()
    backups.backup(call.context.store, call.context.current, name)
    yield from ()


def _restore(call: Call) -> Iterator[Result]:
    """Bring the current database back to the backup @name: rows, captures, LSNs."""
    call.declare("@name")
    name = call.required("@name")
    database = call.context.current
    call.session.close_reader()
    if call.session.engine.writes(database.name):
        raise SqlError(
            3101,
            "Exclusive access could not be obtained because the database is in use.",
        )
    backups.restore(call.context.store, database, name)
    yield from ()


def _for_administrators(run: Run) -> Run:
    def guarded(call: Call) -> Iterator[Result]:
        if not call.context.access.administrator:
            raise call.context.access.denied(
                "EXECUTE", call.name, "sandbox", call.context.current.id
            )
        yield from run(call)

    return guarded


PROCEDURES: dict[str, Run] = {
    name: _for_administrators(run)
    for name, run in {
        "counters": _counters,
        "table_counters": _table_counters,
        "reset_counters": _reset_counters,
        "trace": _trace,
        "traced": _traced,
        "fault": _fault,
        "faults": _faults,
        "clear_faults": _clear_faults,
        "capture_now": _capture_now,
        "set_capture": _set_capture,
        "set_clock": _set_clock,
        "backup_database": _backup,
        "restore_database": _restore,
    }.items()
}
