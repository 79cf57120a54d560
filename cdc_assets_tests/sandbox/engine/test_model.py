"""Random changes against a plain Python model: rows, recorded images, and what they reduce to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_assets_tests.sandbox.harness import Client, captured, serving

Rows = dict[int, str | None]

keys = st.integers(1, 5)
values = st.one_of(st.none(), st.sampled_from(["a", "A", "b ", "é"]))
statement = st.one_of(
    st.tuples(st.just("insert"), keys, values),
    st.tuples(st.just("update"), keys, values),
    st.tuples(st.just("delete"), keys, values),
    st.tuples(st.just("move"), keys, keys),
)
transaction = st.tuples(st.lists(statement, min_size=1, max_size=5), st.booleans())
history = st.lists(transaction, min_size=1, max_size=6)


@pytest.fixture(scope="module")
def model_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("model")
    with serving(directory) as server:
        client = server.client()
        client.run("EXEC sys.sp_cdc_enable_db", "EXEC sys.sp_cdc_add_job 'capture', @start_job = 0")
        yield client


def literal(value: str | None) -> str:
    return "NULL" if value is None else f"N'{value}'"


def text_of(step: tuple[str, int, object]) -> str:
    kind, key, other = step
    if kind == "insert":
        return f"INSERT t VALUES ({key}, {literal(other)})"  # type: ignore[arg-type]
    if kind == "update":
        return f"UPDATE t SET v = {literal(other)} WHERE k = {key}"  # type: ignore[arg-type]
    if kind == "delete":
        return f"DELETE t WHERE k = {key}"
    return f"UPDATE t SET k = {other} WHERE k = {key}"


def apply(rows: Rows, step: tuple[str, int, object]) -> bool:
    """Change the model; False where the server must refuse the key."""
    kind, key, other = step
    if kind == "insert":
        if key in rows:
            return False
        rows[key] = other  # type: ignore[assignment]
    elif kind == "update" and key in rows:
        rows[key] = other  # type: ignore[assignment]
    elif kind == "delete":
        rows.pop(key, None)
    elif kind == "move" and key in rows and key != other:
        if other in rows:
            return False
        rows[other] = rows.pop(key)  # type: ignore[index]
    return True


def replayed(changes: list[tuple[int, int, str | None]]) -> Rows:
    rows: Rows = {}
    for operation, key, value in changes:
        if operation in (1, 3):
            assert rows.pop(key) == value  # the image before is what was there
        else:
            assert key not in rows
            rows[key] = value
    return rows


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(history)
def test_changes_reduce_to_the_rows(
    model_db: Client, history: list[tuple[list[tuple[str, int, object]], bool]]
) -> None:
    db = model_db
    db.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (k int PRIMARY KEY, v nvarchar(5) NULL)")
    captured(db, "t")
    rows: Rows = {}
    for steps, committed in history:
        inside = dict(rows)
        db.run("BEGIN TRAN")
        for step in steps:
            if apply(inside, step):
                db.run(text_of(step))
            else:
                assert db.error(text_of(step)).number == 2627
        db.run("COMMIT" if committed else "ROLLBACK")
        if committed:
            rows = inside
    assert dict(db.rows("SELECT k, v FROM t")) == rows
    db.run("EXEC sandbox.capture_now")
    changes = db.rows(
        "SELECT [__$operation], k, v, [__$start_lsn] FROM cdc.dbo_t_CT ORDER BY [__$start_lsn], "
        "[__$command_id], [__$seqval], [__$operation]"
    )
    assert replayed([row[:3] for row in changes]) == rows
    assert len({row[3] for row in changes}) <= sum(committed for _, committed in history)
