"""Facts and control: each transaction once, never backwards, whoever writes at the same time."""

import json
import shutil
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from cdc_assets.contract import (
    BRONZE,
    CONTROL,
    FACTS,
    SCHEMA_VERSION_PROPERTY,
    Column,
    Event,
    bronze_columns,
)
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.lake.lake import Lake
from cdc_assets.lake.opening import CHECKPOINT_EVERY_COMMITS, ensure_table, open_table
from cdc_assets.lake.tables import MAPPING_MODE, columns_of, delta_schema, query
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.records import ControlRow, FactsRow

NAME = "sales"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(DatabaseName(NAME, str(tmp_path)), {})


def entry(version: int, rows: int = 1, app: str | None = "t#facts") -> FactsEntry:
    row = FactsRow(target="bronze/t", rows=rows, written_at=datetime(2026, 1, 1, 0, version))
    return FactsEntry((row,), app, version)


def test_a_transaction_is_written_once(lake: Lake) -> None:
    assert len(lake.facts.append([entry(1), entry(1, app="u#facts")])) == 2
    assert lake.facts.append([entry(1)]) == ()
    assert lake.facts.append([entry(1), entry(2)]) == (entry(2),)
    assert lake.facts.version_of("t#facts") == 2
    assert len(lake.facts.batches("bronze/t")) == 3


def test_rows_without_a_transaction_are_written_as_they_come(lake: Lake) -> None:
    lake.facts.append([entry(1, app=None)])
    lake.facts.append([entry(1, app=None)])
    assert len(lake.facts.batches("bronze/t")) == 2


def test_two_writers_of_one_transaction_write_it_once(lake: Lake) -> None:
    lake.facts.append([entry(1)])
    written: list[int] = []

    def write() -> None:
        written.extend(e.version for e in lake.facts.append([entry(2)]))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [2]
    assert len(lake.facts.batches("bronze/t")) == 2


def test_newest_rows_and_changes(lake: Lake) -> None:
    first = replace(entry(1).rows[0], max_lsn="0x1")
    quiet = replace(entry(2).rows[0], rows=0, max_lsn=None)
    lake.facts.append([FactsEntry((first,)), FactsEntry((quiet,))])
    assert lake.facts.newest_changes() == {"bronze/t": "0x1"}
    assert lake.facts.newest_changes(above="0x1") == {}
    assert lake.facts.newest_rows()["bronze/t"].rows == 0


def test_control_rows_of_other_writers_stay(lake: Lake) -> None:
    def count_up(name: str) -> None:
        for _ in range(5):
            lake.control.update(
                lambda rows: [
                    replace(
                        rows.get(name) or ControlRow(name),
                        snapshot_wave=((rows[name].snapshot_wave or 0) if name in rows else 0) + 1,
                    )
                ]
            )

    threads = [threading.Thread(target=count_up, args=(f"t{i % 2}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: row.snapshot_wave for name, row in lake.control.read().items()} == {
        "t0": 10,
        "t1": 10,
    }


def test_columns_of_others_keep_their_values_in_control(lake: Lake, tmp_path: Path) -> None:
    lake.control.update(lambda _: [ControlRow("bronze/t"), ControlRow("bronze/u")])
    table = DeltaTable(str(tmp_path / NAME / "_cdc" / "control"))
    table.alter.add_columns([Field("note", PrimitiveType("string"))])
    table.update({"note": "'theirs: ' || table_name"})
    lake.control.update(lambda rows: [replace(rows["bronze/t"], end_lsn="0x1"), ControlRow("new")])
    table.update_incremental()
    found = query(
        "SELECT table_name, end_lsn, note FROM c ORDER BY table_name", c=table
    ).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("bronze/t", "0x1", "theirs: bronze/t"),
        ("bronze/u", None, "theirs: bronze/u"),
        ("new", None, None),
    ]


def test_a_reader_sees_what_others_have_written_since(lake: Lake, tmp_path: Path) -> None:
    """Also where the table came after its first look, and where another has taken its place."""
    other, folder = Lake(DatabaseName(NAME, str(tmp_path)), {}), tmp_path / NAME / "_cdc"
    assert (lake.control.read(), lake.facts.events()) == ({}, [])
    for wave in range(3):
        other.control.update(lambda _, wave=wave: [ControlRow("t", snapshot_wave=wave)])
        other.facts.append([entry(wave)])
        assert lake.control.read()["t"].snapshot_wave == wave
        assert lake.facts.version_of("t#facts") == wave
    shutil.rmtree(folder)
    other.control.update(lambda _: [ControlRow("u")])
    assert set(lake.control.read()) == {"u"}


def test_who_opens_a_table_reads_few_commits(lake: Lake, tmp_path: Path) -> None:
    for version in range(CHECKPOINT_EVERY_COMMITS + 1):
        lake.facts.append([entry(version)])
    log = tmp_path / NAME / "_cdc" / "facts" / "_delta_log"
    last = json.loads((log / "_last_checkpoint").read_text())["version"]
    assert DeltaTable(str(log.parent)).version() - last < CHECKPOINT_EVERY_COMMITS


def test_an_update_to_nothing_writes_nothing(lake: Lake) -> None:
    assert lake.control.update(lambda _: []) == {}
    assert lake.control.read() == {}


def test_tables_are_born_with_comments_and_their_version(lake: Lake, tmp_path: Path) -> None:
    lake.control.update(lambda _: [ControlRow("bronze/t")])
    table = DeltaTable(str(tmp_path / NAME / "_cdc" / "control"))
    assert columns_of(table) == CONTROL.columns
    assert table.metadata().description == CONTROL.comment
    assert table.metadata().configuration[SCHEMA_VERSION_PROPERTY] == str(CONTROL.version)


def test_two_creators_end_with_one_table(tmp_path: Path) -> None:
    ids: list[object] = []

    def create() -> None:
        ids.append(ensure_table(str(tmp_path / "t"), FACTS, {}).metadata().id)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids == [DeltaTable(str(tmp_path / "t")).metadata().id] * 4


def test_a_mapped_table_gets_its_feature_whoever_opens_it(tmp_path: Path) -> None:
    """B123: creation is two commits; a process that died between them is made up for."""
    uri = str(tmp_path / "t")
    DeltaTable.create(
        uri,
        delta_schema(bronze_columns((Column("Unit Price", "INT"),))),
        configuration={MAPPING_MODE: "name", SCHEMA_VERSION_PROPERTY: str(BRONZE.version)},
        raise_if_key_not_exists=False,
    )
    assert "columnMapping" not in DeltaTable(uri).protocol().reader_features
    found: list[DeltaTable | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(open_table(uri, BRONZE, {}))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for table in found:
        assert table is not None
        assert "columnMapping" in table.protocol().reader_features


def test_what_is_written_later_is_later_whatever_the_clock_says(lake: Lake) -> None:
    """A reset from a machine whose clock is behind ends what was there all the same."""
    behind = datetime(2025, 6, 1)
    lake.facts.append([replace_rows(entry(5), max_lsn="0x01")])
    reset = FactsRow(target="bronze/t", event="reset", written_at=behind)
    lake.facts.append([FactsEntry((reset,), "t#reset", 1)])
    opened = FactsRow(target="bronze/t", event="snapshot_open", written_at=behind)
    lake.facts.append([FactsEntry((opened,), "t#open", 1)])
    assert [row.event for row in lake.facts.events()] == ["reset", "snapshot_open"]
    assert (lake.facts.newest_changes(), lake.facts.newest_rows()) == ({}, {})
    lake.facts.append([replace_rows(entry(6), max_lsn="0x02", written_at=behind)])
    assert lake.facts.newest_changes() == {"bronze/t": "0x02"}


def test_a_clock_that_was_ahead_moves_no_time_of_others(lake: Lake) -> None:
    """One row of the future: batches keep their times, and the furthest is found all the same."""
    ahead, now = datetime(2027, 1, 1), datetime(2026, 1, 1)
    lake.facts.append([replace_rows(entry(1), end_lsn="0x1", written_at=ahead)])
    lake.facts.append([replace_rows(entry(2), end_lsn="0x2", written_at=now, started_at=now)])
    assert [row.written_at for row in lake.facts.batches("bronze/t")] == [now, ahead]
    assert lake.facts.newest_rows()["bronze/t"].end_lsn == "0x2"
    hour = timedelta(hours=1)
    assert lake.facts.told_between(now - hour, now + hour) == {"bronze/t"}
    assert lake.facts.told_between(now, now + hour) == frozenset()


def test_events_of_one_commit_keep_their_order(lake: Lake) -> None:
    lake.facts.append([entry(5)])
    early = datetime(2025, 6, 1)
    events = [FactsRow(target="bronze/t", event=e, written_at=early) for e in ("a", "reset", "b")]
    other = FactsRow(target="bronze/u", event="a", written_at=early)
    lake.facts.append([FactsEntry((*events, other))])
    found = [row.event for row in lake.facts.events() if row.target == "bronze/t"]
    assert found == ["a", "reset", "b"]
    assert [r.written_at for r in lake.facts.events() if r.target == "bronze/u"] == [early]


def replace_rows(given: FactsEntry, **columns: object) -> FactsEntry:
    return replace(given, rows=tuple(replace(row, **columns) for row in given.rows))


def test_waves_are_looked_for_from_the_newest_on(lake: Lake) -> None:
    """What is asked for is there, whatever stands between, and most of the rest is not read."""
    table, snapshot = DatabaseName(NAME, "").table("t"), Lsn.of_int(7)
    for wave in range(20):
        for name, lsn in (("t", snapshot), ("t", Lsn.of_int(5)), ("u", snapshot)):
            of = DatabaseName(NAME, "").table(name)
            rows = tuple(
                FactsRow(
                    app_id=of.snapshot_app(lsn),
                    target=of.bronze,
                    event=str(Event.SNAPSHOT_CHUNK),
                    detail=json.dumps({"snapshot": str(lsn), "chunk": chunk, "wave": wave}),
                    written_at=datetime(2026, 1, 1, 0, wave),
                )
                for chunk in (2 * wave, 2 * wave + 1)
            )
            lake.facts.append([FactsEntry(rows, of.wave_app(lsn), wave)])
        lake.facts.append([entry(wave)])
    for applied in (19, 18, 10, 0, -1):
        found = [row.payload["chunk"] for row in lake.facts.waves_after(table, snapshot, applied)]
        assert found[-1:] == [39]
        assert {n for n in range(40) if n // 2 > applied} <= set(found)
        assert len(found) < 40 or applied < 10
