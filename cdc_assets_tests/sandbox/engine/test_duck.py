"""DuckDB's own answers, where the engine could not mend a wrong one."""

from __future__ import annotations

from pathlib import Path

import duckdb

from cdc_assets.sandbox.engine.duck import connect

_STEPS = (
    "CREATE TABLE t(c1 INTEGER)",
    "INSERT INTO t VALUES (-17), (14)",
    "UPDATE t SET c1 = 32 WHERE c1 = -17",
    "UPDATE t SET c1 = 50 WHERE c1 = 32",
    "CHECKPOINT",
    "UPDATE t SET c1 = 25 WHERE c1 = 50",
    "INSERT INTO t VALUES (29), (18), (-6)",
)
_LAST = "SELECT c1 FROM t ORDER BY c1 DESC LIMIT 1"


def test_the_last_of_an_order_is_the_largest_after_updates(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "t.duckdb"))
    for step in _STEPS:
        connection.execute(step)
    assert connection.one(_LAST) == (29,)
    connection.close()


def test_duckdb_still_needs_it(tmp_path: Path) -> None:
    """Once this fails, the optimizer can be let run again."""
    with duckdb.connect(tmp_path / "t.duckdb") as raw:
        for step in _STEPS:
            raw.execute(step)
        assert raw.execute(_LAST).fetchall() == [(25,)]
