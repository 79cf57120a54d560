"""The first bulk load: tables, rows, change data capture, grants."""

from __future__ import annotations

from cdc_assets.sandbox.engine.backend import ADMINISTRATOR, READER, Engine
from cdc_assets.sandbox.engine.session import EngineSession
from cdc_assets.sandbox.results import Failed, ResultSet
from cdc_assets.sandbox.workload import tables


def run(session: EngineSession, text: str) -> None:
    """Run a batch for its effect; raises the first error of any of its statements."""
    for result in session.execute(text):
        if isinstance(result, Failed):
            raise result.error
        if isinstance(result, ResultSet):
            for _ in result.batches:
                pass


def administrator(engine: Engine, database: str = "master") -> EngineSession:
    """A session of sa."""
    return engine.login(ADMINISTRATOR, engine.passwords[ADMINISTRATOR], database, "sandbox")


def load(engine: Engine, scale: tables.Scale, seed: int, *, settled: bool = True) -> None:
    """Make database, tables and rows; a database that is there already stays as it is.

    `settled` writes an idle entry at the end, so that min_lsn and max_lsn are there at once, as
    they are on a server that has run for some minutes.
    """
    if tables.DATABASE in engine.store.catalog.databases:
        return
    session = administrator(engine)
    try:
        run(session, f"CREATE DATABASE {tables.DATABASE}")
        run(session, f"USE {tables.DATABASE}")
        for text in tables.CREATE:
            run(session, text)
        _fill(session, scale, seed)
        run(session, "EXEC sys.sp_cdc_enable_db")
        run(session, f"CREATE USER {READER} FOR LOGIN {READER}")
        for name in tables.TABLES:
            enable(session, name)
        if settled:
            run(session, "EXEC sandbox.capture_now @idle = 1")
    finally:
        session.close()
    with engine.store.commit_lock:
        engine.store.connect().execute("CHECKPOINT")


def _fill(session: EngineSession, scale: tables.Scale, seed: int) -> None:
    """Rows straight into DuckDB: what the T-SQL way would check holds by construction."""
    with session.writing() as work:
        for name in tables.TABLES:
            table = session.context.find_table(("dbo", name))
            if table is None:
                raise RuntimeError(f"the workload's table {name} was not made")
            columns = ", ".join(column.physical for column in table.columns)
            work.connection.execute(
                f"INSERT INTO {table.physical} ({columns}) {tables.rows(name, scale, seed)}"
            )
            work.wrote(table)


def enable(session: EngineSession, name: str, schema: str = "dbo") -> None:
    """Capture a table and let the reader read it and its change table, and nothing else."""
    run(
        session,
        f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{name}', "
        "@role_name = NULL, @supports_net_changes = 0;"
        f"GRANT SELECT ON [{schema}].[{name}] TO {READER};"
        f"GRANT SELECT ON cdc.[{schema}_{name}_CT] TO {READER}",
    )
