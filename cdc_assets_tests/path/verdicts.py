"""What a history's verdicts claim, held to the source and to what came later.

Nothing is asked of the product but its tables: the source as it was is the source as it is, with
the changes since then taken back, and what was known when a verdict was written is bronze at the
version of that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from cdc_assets.contract import Operation
from cdc_assets.lake.tables import query, table_id
from cdc_assets.planning.literals import quoted
from cdc_assets_tests.path.helpers import HOUR, load, set_clock
from cdc_assets_tests.source import Project

_GONE = (Operation.DELETE, Operation.BEFORE)
TABLE = "dbo_items"
SETTLED_TRIES_MAX = 100

Rows = dict[Any, tuple[Any, ...]]
"""A table's rows by `id`."""


def assert_right(project: Project, columns: Sequence[str], instance: str = TABLE) -> None:
    """The end of a history of dbo.items: its verdict is past all of it, and so are its claims.

    What is left to happen is one change before the verdict and one after it, which is captured by
    `instance`.
    """
    with _an_hour_later(project):
        _commit(project, "before the verdict")
        load(project)
        _commit(project, "after the verdict")
        for _ in range(SETTLED_TRIES_MAX):
            applied = load(project)[1]
            if applied.hold is None:
                break
            _commit(project, "settled")
        assert applied.hold is None
        until = applied.finalized_until
        assert until is not None
        project.assert_each_change_once(TABLE)
        project.assert_identical(TABLE, columns)
        _assert_claims(project, columns, until, instance)
        assert_nothing_came_late(project)


@contextmanager
def _an_hour_later(project: Project) -> Iterator[None]:
    """So that the verdict is past what has happened; a real server's clock goes as it goes."""
    if not project.source.server.is_sandbox:
        yield
        return
    set_clock(project, 3 * HOUR)
    try:
        yield
    finally:
        set_clock(project, 0)


def _commit(project: Project, note: str) -> None:
    project.source.execute(
        "IF EXISTS (SELECT 1 FROM dbo.items WHERE id = 990)"
        f" UPDATE dbo.items SET note = '{note}' WHERE id = 990"
        f" ELSE INSERT INTO dbo.items (id, name, note) VALUES (990, N'last', '{note}')"
    )
    project.source.captured()


def _assert_claims(
    project: Project, columns: Sequence[str], until: datetime, instance: str
) -> None:
    control = project.database().lake.control.read()
    bronze, silver = control[f"bronze/{TABLE}"], control[f"silver/{TABLE}"]
    assert bronze.finalized_until == silver.finalized_until == until
    before = source_before(project, columns, until, instance)
    assert before, "nothing is before the verdict"
    assert bronze_before(project, columns, until) == before
    own = project.database().lake.silver(project.database().table(TABLE))
    assert own is not None
    at_verdict = DeltaTable(own.table_uri, version=silver.verdict_version)
    names = ", ".join(quoted(name) for name in columns)
    held = {row["id"]: tuple(row.values()) for row in _query(f"SELECT {names} FROM t", at_verdict)}
    now = {row[0]: row for row in _source(project, columns)}
    assert held == now, "nothing was committed after the last load"
    settled = {key for key in {*before, *now} if before.get(key) == now.get(key)}
    assert settled
    assert {k: held.get(k) for k in settled} == {k: before.get(k) for k in settled}


def _source(project: Project, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return project.source.rows(f"SELECT {', '.join(columns)} FROM dbo.items")


def source_before(project: Project, columns: Sequence[str], until: datetime, instance: str) -> Rows:
    """The source as of the last commit before a time (UTC), by what capture holds of it since."""
    rows = {row[0]: row for row in _source(project, columns)}
    names = ", ".join(f"c.[{name}]" for name in columns)
    changes = project.source.rows(
        f"SELECT c.__$operation, {names} FROM cdc.[{instance}_CT] AS c"
        " JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = c.__$start_lsn"
        f" WHERE m.tran_end_time >= '{until.isoformat(timespec='milliseconds')}'"
        " ORDER BY c.__$start_lsn DESC, c.__$command_id DESC, c.__$seqval DESC,"
        " c.__$operation DESC"
    )
    assert changes, "nothing is after the verdict"
    for operation, *row in changes:
        if operation in _GONE:
            rows[row[0]] = tuple(row)
        else:
            rows.pop(row[0], None)
    return rows


def bronze_before(project: Project, columns: Sequence[str], until: datetime) -> Rows:
    """Bronze's commits before a time (UTC), on the newest snapshot before it, reduced."""
    rows = [row for row in project.bronze(TABLE) if row["_commit_ts"] < until]
    facts = project.database().lake.facts.events()
    done = [e.max_lsn for e in facts if e.event in ("bootstrap", "resnapshot")]
    base = done[-1] or ""
    found: Rows = {}
    for row in rows:
        operation = row["_operation"]
        if operation == Operation.SNAPSHOT and (row["_snapshot"] or row["_start_lsn"]) != base:
            continue
        if operation != Operation.SNAPSHOT and row["_start_lsn"] <= base:
            continue
        if operation in _GONE:
            found.pop(row["id"], None)
        else:
            found[row["id"]] = tuple(row[name] for name in columns)
    return found


def assert_nothing_came_late(project: Project) -> None:
    """No change has come to bronze with a time before a verdict that was there already."""
    database = project.database()
    bronze = database.lake.bronze(database.table(TABLE))
    assert bronze is not None
    commits = sorted((_time(entry), int(entry["version"])) for entry in bronze.history())
    checked = 0
    for until, written in _verdicts(project, table_id(bronze)).items():
        known = [version for time, version in commits if time <= written]
        if not known or known[-1] < commits[0][1]:
            continue
        then = DeltaTable(bronze.table_uri, version=known[-1])
        assert _changes_before(then, until) == _changes_before(bronze, until), until
        checked += 1
    assert checked, "no verdict is left in the logs"


def _verdicts(project: Project, bronze_id: str) -> dict[datetime, datetime]:
    """Each verdict of this bronze that control's log still has, and when it was written."""
    uri = project.database().name.control_uri
    found: dict[datetime, datetime] = {}
    for entry in sorted(DeltaTable(uri).history(), key=lambda e: int(e["version"])):
        table = DeltaTable(uri, version=int(entry["version"]))
        if "table_id" not in {field.name for field in table.schema().fields}:
            continue
        for row in _query("SELECT table_name, table_id, finalized_until FROM t", table):
            ours = row["table_name"] == f"bronze/{TABLE}" and row["table_id"] == bronze_id
            if ours and row["finalized_until"] is not None:
                found.setdefault(row["finalized_until"], _time(entry))
    return found


def _changes_before(bronze: DeltaTable, until: datetime) -> int:
    text = f"TIMESTAMP '{until.isoformat(sep=' ')}'"
    found = _query(
        f"SELECT count(*) AS n FROM t WHERE `_operation` <> 0 AND `_commit_ts` < {text}", bronze
    )
    return int(found[0]["n"])


def _query(sql: str, table: DeltaTable) -> list[dict[str, Any]]:
    return list(query(sql, t=table).to_pylist())


def _time(entry: dict[str, Any]) -> datetime:
    return datetime(1970, 1, 1) + timedelta(milliseconds=int(entry["timestamp"]))
