"""Reading a lake's verdicts: as docs/finality.md says, writing nothing, importing nothing heavy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.contract import SCHEMA_VERSION_PROPERTY, Event
from cdc_assets.errors import SettingsError, TableNewerError, TableReplacedError
from cdc_assets.finality import Locations, Reason, finalized_until, is_final, verdict
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.lake import Lake
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.records import ControlRow, FactsRow

PAGE = Path(__file__).parents[2] / "docs" / "finality.md"
UNTIL = datetime(2026, 2, 1, 5)
SETTINGS = """\
databases:
  sales:
    lake: lake
    defaults: {finality: {granularity: hour}}
    tables: {dbo_orders: {}, dbo_new: {}}
"""
HEAVY = ["arrow_odbc", "dagster", "delta", "pandas", "pyspark"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `tables.yaml` and the lake of a loaded table, in the working folder."""
    (tmp_path / "tables.yaml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CDC_TABLES", raising=False)
    return tmp_path


@pytest.fixture
def lake(folder: Path) -> Lake:
    silver = folder / "lake" / "sales" / "silver" / "dbo_orders"
    write_deltalake(silver, pa.table({"order_id": [1, 2], "clerk": ["a", "b"]}))
    write_deltalake(silver, pa.table({"order_id": [3], "clerk": ["newer"]}), mode="append")
    made = Lake(DatabaseName("sales", str(folder / "lake")), {})
    s = str(Lsn.of_int(5))
    snapshot = event(Event.BOOTSTRAP, 5, max_commit_ts=UNTIL - timedelta(days=90))
    made.facts.append([FactsEntry((snapshot,))])
    bronze = ControlRow("bronze/dbo_orders", finalized_until=UNTIL, end_commit_ts=UNTIL)
    position = {"applied_lsn": s, "snapshot_lsn": s, "verdict_version": 0}
    silver_row = ControlRow("silver/dbo_orders", finalized_until=UNTIL, **position)  # type: ignore[arg-type]
    made.control.update(lambda _: [bronze, silver_row])
    return made


def event(kind: Event, lsn: int, **columns: Any) -> FactsRow:
    text = str(Lsn.of_int(lsn))
    times = {"max_commit_ts": UNTIL, "written_at": UNTIL, **columns}
    return FactsRow(
        target="bronze/dbo_orders", event=str(kind), min_lsn=text, max_lsn=text, **times
    )


def at(folder: Path, **columns: Any) -> Locations:
    return Locations(str(folder / "lake" / "sales" / "_cdc" / "control"), **columns)


def stamp(folder: Path, version: str) -> None:
    control = DeltaTable(folder / "lake" / "sales" / "_cdc" / "control")
    control.alter.set_table_properties(
        {SCHEMA_VERSION_PROPERTY: version}, raise_if_not_exists=False
    )


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_the_examples_of_the_page(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas", reason="pandas comes with the extra `spark`")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    results = []
    for block in blocks:
        *body, last = block.strip().splitlines()
        exec("\n".join(body), names)
        try:
            results.append(eval(last, names))
        except SyntaxError:
            exec(last, names)
    until, counted, frame, of_polars, final = results
    assert (until, counted, final) == (UNTIL, [(2,)], True)
    assert (len(frame), len(of_polars)) == (2, 2)


def test_a_gap_in_the_facts_is_told(lake: Lake, folder: Path) -> None:
    start = UNTIL - timedelta(hours=3)
    gap = event(Event.DATA_SKIPPED, 9, lost_from_ts=start, lost_to_ts=start)
    lake.facts.append([FactsEntry((gap,))])
    of_bronze = verdict("sales.dbo_orders", layer="bronze")
    assert [g.start for g in of_bronze.lost] == [start]
    assert not is_final("sales.dbo_orders", UNTIL)
    assert is_final("sales.dbo_orders", UNTIL, layer="bronze")
    assert not is_final("sales.dbo_orders", UNTIL - timedelta(hours=2), layer="bronze")
    assert not is_final("bronze/dbo_orders", UNTIL, start=start, at=at(folder))


def test_a_gap_is_told_of_whatever_is_made_of_bronze(lake: Lake, folder: Path) -> None:
    """A silver in any place, whose bronze is not known, named, or named otherwise; a history."""
    places = [str(folder / name) for name in ("gold/now", "elsewhere/silver/orders")]
    rows = lake.control.read()
    made = [replace(rows["silver/dbo_orders"], table_name=name) for name in places]
    of_history = replace(made[0], table_name="history/dbo_orders")
    lake.control.update(lambda _: [*made, of_history])
    assert all(is_final(name, UNTIL, at=at(folder)) for name in places)
    assert is_final("sales.dbo_orders", UNTIL, layer="history")
    start = UNTIL - timedelta(hours=3)
    gap = event(Event.DATA_SKIPPED, 9, lost_from_ts=start, lost_to_ts=start)
    lake.facts.append([FactsEntry((gap,))])
    assert not is_final("sales.dbo_orders", UNTIL, layer="history")
    assert not is_final("history/dbo_orders", UNTIL, at=at(folder))
    for name in places:
        told = verdict(name, at=at(folder))
        assert (told.is_final(start), told.is_final(UNTIL)) == (True, False)
        assert "name its bronze" in told.text
        named = verdict(name, at=at(folder, bronze=str(folder / "lake/sales/bronze/dbo_orders/")))
        assert (named.is_final(start), named.is_final(UNTIL)) == (True, False)
        assert "Nothing holds" in named.text
        assert not is_final(name, UNTIL, at=at(folder, bronze="bronze/dbo_order"))


def test_a_gap_of_another_table_is_none_of_a_silver_whose_bronze_is_named(
    lake: Lake, folder: Path
) -> None:
    gold = replace(lake.control.read()["silver/dbo_orders"], table_name=str(folder / "gold"))
    lake.control.update(lambda _: [gold])
    gap = event(Event.DATA_SKIPPED, 9, lost_from_ts=UNTIL, lost_to_ts=UNTIL)
    start = UNTIL - timedelta(hours=3)
    lake.facts.append([FactsEntry((replace(gap, target="bronze/other", lost_from_ts=start),))])
    assert is_final(gold.table_name, UNTIL, at=at(folder, bronze="bronze/dbo_orders"))
    assert not is_final(gold.table_name, UNTIL, at=at(folder))
    assert is_final("sales.dbo_orders", UNTIL)


def test_nothing_is_written(lake: Lake, folder: Path) -> None:
    """Not even a migration of an older table: readers may have no right to."""
    stamp(folder, "0")
    before = files(folder)
    assert finalized_until("sales.dbo_orders") == UNTIL
    assert finalized_until("sales.dbo_orders", layer="bronze") == UNTIL
    assert files(folder) == before


def test_a_lake_of_a_later_release_is_refused(lake: Lake, folder: Path) -> None:
    stamp(folder, "99")
    with pytest.raises(TableNewerError):
        is_final("sales.dbo_orders", UNTIL)


def test_what_is_not_there(folder: Path) -> None:
    """Before the first sync a table of the settings is not final; a place that is wrong is told."""
    told = verdict("sales.dbo_orders")
    assert (told.hold, told.finalized_until, told.is_final(UNTIL)) == (
        Reason.NEVER_LOADED,
        None,
        False,
    )
    assert told.uri == str(folder / "lake" / "sales" / "silver" / "dbo_orders")
    with pytest.raises(TableReplacedError, match=r"no Delta table at .*control"):
        verdict("silver/dbo_orders", at=at(folder))
    with pytest.raises(SettingsError, match=r"no table sales\.dbo_order\. Did you mean sales\.dbo"):
        verdict("sales.dbo_order")
    with pytest.raises(SettingsError, match=r"<database>\.<table>"):
        verdict("dbo_orders")


def test_a_table_that_was_not_loaded_yet(lake: Lake, folder: Path) -> None:
    assert verdict("sales.dbo_new").hold is Reason.NEVER_LOADED
    assert not is_final("silver/dbo_new", UNTIL, at=at(folder))


def test_facts_that_are_gone(lake: Lake, folder: Path) -> None:
    """They alone know what is lost, so no verdict is given without them, unless nobody has any."""
    facts = folder / "lake" / "sales" / "_cdc" / "facts"
    facts.rename(folder / "elsewhere")
    with pytest.raises(TableReplacedError, match="knows what is lost"):
        is_final("sales.dbo_orders", UNTIL)
    with pytest.raises(TableReplacedError, match="knows what is lost"):
        is_final("silver/dbo_orders", UNTIL, at=at(folder, facts=str(facts)))
    told = verdict("silver/dbo_orders", at=at(folder))
    assert told.is_final(UNTIL)
    assert "no facts" in told.text
    elsewhere = at(folder, facts="elsewhere")
    assert "Nothing holds" in verdict("silver/dbo_orders", at=elsewhere).text


@pytest.mark.parametrize(
    "spelling",
    [
        "silver/dbo_orders",
        "lake/sales/silver/dbo_orders/",
        "{folder}/lake//sales/silver/dbo_orders",
        "file://{folder}/lake/sales/silver/dbo_orders",
        "delta.`{folder}/lake/sales/silver/dbo_orders`",
    ],
)
def test_any_spelling_finds_the_table(lake: Lake, folder: Path, spelling: str) -> None:
    told = verdict(spelling.format(folder=folder), at=at(folder))
    assert (told.name, told.verdict_version) == ("silver/dbo_orders", 0)
    assert DeltaTable(told.uri, version=told.verdict_version).count() == 2


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import json, sys, cdc_assets.finality\n"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == []
