"""Both engines make the same silver of the same bronze, also when they take turns."""

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_assets.contract import Column
from cdc_assets.engines.arrow.engine import ArrowEngine
from cdc_assets.engines.door import Engine
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.merging import changes_above, rebuild_from
from cdc_assets.sqlserver.connection import Connections
from cdc_assets_tests.engines.spark.helpers import LiteralEngine, Tables, lsn

COLUMNS = (Column("id", "BIGINT"), Column("part", "STRING"), Column("amount", "DECIMAL(15,2)"))
KEYS = ("id", "part")
PARTS = (None, "", "a", "it's", "\\n", "Z", "é", "zz")


def history(seed: int, above: int, commits: int) -> list[tuple[int, int, dict[str, Any]]]:
    """Random changes of a few keys, several to a commit and to a key."""
    dice = random.Random(seed)
    found = []
    for at in range(above + 1, above + 1 + commits):
        for _ in range(dice.randint(1, 5)):
            row = {
                "id": dice.choice((None, 1, 2, 3)),
                "part": dice.choice(PARTS),
                "amount": Decimal(dice.randint(-99999, 99999)).scaleb(-2),
            }
            kind = dice.choice(("insert", "update", "delete"))
            found += [(at, 3, row)] if kind == "update" else []
            found.append((at, {"insert": 2, "update": 4, "delete": 1}[kind], row))
    return found


def silver(tables: Tables) -> list[str]:
    return sorted(map(str, query("SELECT * FROM s", s=DeltaTable(tables.silver)).to_pylist()))


@pytest.mark.parametrize(("seed", "turn"), [(1, "spark"), (2, "by turns")])
def test_both_engines_make_the_same_silver(
    engine: LiteralEngine, tmp_path: Path, seed: int, turn: str
) -> None:
    arrow: Engine = ArrowEngine(Connections(engine._source), {})
    engines = {
        "arrow": [arrow] * 3,
        "spark": [engine] * 3,
        "by turns": [engine, arrow, engine],
    }
    expected = steps(Tables(tmp_path / "arrow", COLUMNS, KEYS), engines["arrow"], seed)
    found = steps(Tables(tmp_path / "other", COLUMNS, KEYS), engines[turn], seed)
    assert found == expected
    assert expected[-1]


def steps(tables: Tables, engines: list[Engine], seed: int) -> list[object]:
    """What each apply said and left, the last one a rebuild."""
    tables.create()
    said: list[object] = []
    for step, engine in enumerate(engines):
        tables.write(tables.changes(*history(seed * 10 + step, step * 20, 20)))
        last = step == len(engines) - 1
        rows = rebuild_from(Lsn(lsn(30))) if last else changes_above(Lsn(lsn(step * 20)))
        result = engine.apply(tables.apply_plan(step + 1, rows, rebuild=last))
        said.append((result.overtaken, result.upserted, result.deleted))
        said.append(silver(tables))
    return said
