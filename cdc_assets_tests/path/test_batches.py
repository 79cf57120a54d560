"""How a batch is read: in pieces, whatever its commits; and how many commits are in one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.errors import SourceQueryError
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest import advance as advance_module
from cdc_assets.ingest import batch as batch_module
from cdc_assets.ingest import recording
from cdc_assets.ingest.outcome import TableOutcome
from cdc_assets.ingest.parts import Part, Piece, counted_parts, split
from cdc_assets.ingest.poll import poll_database
from cdc_assets.ingest.sync import sync
from cdc_assets.lsn import Lsn
from cdc_assets.planning.instances import readers
from cdc_assets.planning.records import FactsRow
from cdc_assets.sqlserver import change_queries as queries
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.change_queries import ChangeTable
from cdc_assets.sqlserver.queries import MAX_LSN
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load, run_sync
from cdc_assets_tests.path.killing import kill_at
from cdc_assets_tests.source import Project, Source

pytestmark = pytest.mark.sqlserver
ARROW = pytest.mark.parametrize("engine_name", ["arrow"])

TABLE = "dbo_items"
PLACE = ("_start_lsn", "_command_id", "_seqval", "_operation")
CHANGES = (
    "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id],"
    " CONVERT(varchar(22), [__$seqval], 1), [__$operation], id, name FROM cdc.dbo_items_CT"
    " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
)


def insert(source: Source, first: int, last: int) -> str:
    """A statement that inserts these rows."""
    values = ", ".join(f"({i}, N'row {i}')" for i in range(first, last + 1))
    return f"INSERT INTO dbo.items (id, name) VALUES {values}"


def update(where: str = "1 = 1") -> str:
    return f"UPDATE dbo.items SET name = name + N'+' WHERE {where}"


def one_by_one(ids: Sequence[int]) -> list[str]:
    return [update(f"id = {i}") for i in ids]


@pytest.fixture
def many(project: Project) -> Project:
    """400 rows; commits of one statement over all of them, of many statements, and small ones."""
    source = project.source
    create_items(source, rows=0)
    source.execute(insert(source, 1, 400))
    project.tables = {TABLE: None}
    source.captured()
    load(project)
    source.execute(update(), update("id <= 3"))
    source.transaction(*one_by_one(range(1, 101)), update("id <= 200"), *one_by_one([7, 8, 9]))
    source.execute("DELETE FROM dbo.items WHERE id = 5", *one_by_one([1, 2]))
    source.captured()
    return project


def pieces(project: Project, count: int, rows_min: int = 1, first: str = "") -> list[Piece]:
    """How a sync from a commit on, or of everything, would be split."""
    project.extra = {"num_partitions": count, "rows_per_range_min": rows_min}
    database = project.database()
    with database.connections.lend() as connection:
        instance = capture_instances(connection)[TABLE]
        poll = poll_database(connection, {TABLE: instance}, {})
        assert poll.max is not None
        (part,) = counted_parts(
            connection,
            database,
            database.table(TABLE),
            poll,
            readers(instance.identity, ()),
            (Lsn.parse(first) if first else instance.start_lsn, poll.max.lsn),
        )
        return split(connection, database, part)


def pieces_of(project: Project, name: str, has_command_id: bool, count: int) -> list[Piece]:
    """How everything in another change table would be split."""
    project.extra = {"num_partitions": count, "rows_per_range_min": 1}
    database = project.database()
    with database.connections.lend() as connection:
        instance = capture_instances(connection)[TABLE]
        newest = Lsn.parse(connection.rows(MAX_LSN)[0]["max_lsn"])
        counted = connection.rows(
            queries.count_changes(name), queries.closed_range(instance.start_lsn, newest)
        )
        table = ChangeTable(name, has_command_id)
        return split(
            connection, database, Part(instance, table, instance.start_lsn, newest, counted)
        )


def read(project: Project, piece: Piece) -> list[tuple[Any, ...]]:
    """The rows of one piece, as a reader gets them."""
    seeks, columns = piece.span.seeks, [(name, name) for name in ("id", "name")]
    with project.database().connections.lend() as connection:
        text = queries.read_changes(piece.part.table, columns, seeks)
        rows = connection.rows(text, queries.parameters(seeks))
    return [tuple(row[name] for name in (*PLACE, "id", "name")) for row in rows]


@ARROW
def test_every_change_is_in_one_piece_and_in_order(many: Project) -> None:
    """B047, B032: cut within a commit and within a statement, never between an update's images."""
    expected = many.source.rows(CHANGES)
    for count in (1, 3, 8):
        found = pieces(many, count)
        parts = [read(many, piece) for piece in found]
        assert [row for part in parts for row in part] == expected
        assert [len(part) for part in parts] == [piece.span.rows for piece in found]
        assert len(found) == count
        assert max(map(len, parts)) < 2 * len(expected) / count
        assert all(before[2] == after[2] for part in parts for before, after in images(part))
    old, parts = with_nulls(many), []
    for has_command_id in (True, False):
        parts = [read(many, piece) for piece in pieces_of(many, "old", has_command_id, 8)]
        assert len(parts) == 8
        read_rows = [row for part in parts for row in part]
        assert Counter(map(str, read_rows)) == Counter(
            str(row if has_command_id else (row[0], None, *row[2:])) for row in old
        )
        assert not has_command_id or read_rows == old
    # Five rows of the last three commits, two of them with the two images of an update.
    commits = sorted({row[0] for row in expected})
    last = pieces(many, 8, first=commits[-3])
    assert [piece.span.rows for piece in last] == [1, 2, 2]
    assert [row for piece in last for row in read(many, piece)] == expected[-5:]
    # A small batch is one range, and a range has rows enough.
    (whole,) = pieces(many, 8, rows_min=50_000)
    assert len(whole.span.seeks) == 1
    assert len(pieces(many, 8, rows_min=600)) == 2


def with_nulls(project: Project) -> list[tuple[Any, ...]]:
    """A change table with rows from before command ids came: whole commits, and parts of some."""
    source = project.source
    source.execute(
        "CREATE TABLE cdc.old_CT ([__$start_lsn] binary(10) NOT NULL, [__$command_id] int NULL,"
        " [__$seqval] binary(10) NOT NULL, [__$operation] int NOT NULL, id int, name nvarchar(40))",
        "INSERT INTO cdc.old_CT SELECT [__$start_lsn], CASE WHEN id > 30 AND id % 3 > 0"
        " THEN [__$command_id] END, [__$seqval], [__$operation], id, name FROM cdc.dbo_items_CT",
        f"GRANT SELECT ON cdc.old_CT TO [{source.server.reader_login}]",
    )
    found = source.rows(CHANGES.replace("dbo_items", "old"))
    assert {row[1] is None for row in found} == {True, False}
    return found


def images(rows: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The images before and after each update, by the order of the rows alone."""
    befores, afters = ([r for r in rows if r[3] == operation] for operation in (3, 4))
    return list(zip(befores, afters, strict=True))


def test_a_huge_commit_is_one_bronze_commit(project: Project) -> None:
    """B047."""
    source = project.source
    create_items(source, rows=0)
    source.execute(insert(source, 1, 300))
    project.tables = {TABLE: None}
    project.extra = {"num_partitions": 3, "rows_per_range_min": 100}
    load(project)
    source.execute(update())
    source.captured()
    outcome, _ = load(project)
    assert outcome.rows == 600
    assert len({row["_batch_id"] for row in project.bronze(TABLE) if row["_batch_id"]}) == 1
    rows = [row for row in project.bronze(TABLE) if row["_operation"]]
    found = [tuple(row[name] for name in (*PLACE, "id", "name")) for row in rows]
    assert found == source.rows(CHANGES)[-600:]
    project.assert_identical(TABLE, COLUMNS)
    database = project.database()
    assert [r.rows for r in database.lake.facts.batches(f"bronze/{TABLE}") if r.rows] == [600]


@pytest.mark.sandbox
@ARROW
def test_a_large_transaction_in_two_tables_through_crashes(
    project: Project, tmp_path: Path
) -> None:
    """B024: an error in the middle of its rows, then a death before its facts, then a rerun."""
    source = project.source
    if not source.server.is_sandbox:
        pytest.skip("only the sandbox fails in the middle of a read when it is asked to")
    for name in ("a", "b"):
        source.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, v int NULL)")
        source.enable(name)
    project.tables = {"dbo_a": None, "dbo_b": None}
    project.extra = {"num_partitions": 3, "rows_per_range_min": 500}
    run_sync(project)
    values = ", ".join(f"({i}, {i})" for i in range(1000))
    source.transaction(*(f"INSERT INTO dbo.{name} (id, v) VALUES {values}" for name in "ab"))
    source.transaction(*(2 * ["UPDATE dbo.a SET id = v + 5000 WHERE v < 600"]))
    source.captured()
    source.execute(
        f"EXEC sandbox.fault @kind = N'error', @table = N'cdc.dbo_a_CT', @rows = 400,"
        f" @login = N'{source.server.reader_login}', @number = 50001"
    )
    (failed,) = sync(project.database()).failed
    assert source.rows("EXEC sandbox.faults") == []
    assert failed.table == "dbo_a"
    assert project.bronze("dbo_a") == []
    kill_at(project, FaultPoint.BRONZE_APPENDED, tmp_path / "reached")
    for table in ("dbo_a", "dbo_b"):
        load(project, table)
        load(project, table)
        project.assert_each_change_once(table)
        project.assert_identical(table, ("id", "v"))


def commits_of(source: Source, names: Sequence[str]) -> None:
    """One commit after the other, captured."""
    source.execute("; ".join(f"INSERT INTO dbo.{name} VALUES (NULL)" for name in names))
    source.captured()


@pytest.fixture
def ours(project: Project) -> Project:
    """A table that takes one commit a batch, beside one of others."""
    for name in ("ours", "others"):
        project.source.execute(f"CREATE TABLE dbo.{name} (id int IDENTITY PRIMARY KEY, v int NULL)")
        project.source.enable(name)
    project.tables = {"dbo_ours": {"max_commits_per_batch": 1}}
    run_sync(project)
    return project


def recorded_batches(project: Project) -> list[FactsRow]:
    """The facts of the batches with rows, in the order of their ids."""
    batches = project.database().lake.facts.batches("bronze/dbo_ours")
    return sorted((row for row in batches if row.rows), key=lambda row: row.batch_id or 0)


@ARROW
def test_commits_of_others_count_for_no_batch(ours: Project) -> None:
    """B050: the limit counts commits with rows for the table, and passes the others in one step."""
    source = ours.source
    commits_of(source, ["others"] * 150 + ["ours"] + ["others"] * 150 + ["ours"] + ["others"] * 9)
    newest = source.captured()
    outcome = run_sync(ours).outcomes["dbo_ours"]
    assert (outcome.rows, outcome.end and str(outcome.end.lsn)) == (2, newest)
    first, second = recorded_batches(ours)
    assert (first.rows, first.batch_id, first.end_lsn) == (1, 1, first.max_lsn)
    assert (second.rows, second.batch_id, second.end_lsn) == (1, 2, newest)
    control = ours.database().lake.control.read()["bronze/dbo_ours"]
    assert (control.end_lsn, control.changed_lsn) == (newest, second.max_lsn)
    # Facts and control know each batch, in one commit: nothing was read twice.
    assert len(ours.bronze("dbo_ours")) == 2
    assert run_sync(ours).outcomes["dbo_ours"].rows == 0


@ARROW
def test_batches_through_a_death_between_two_of_them(ours: Project, tmp_path: Path) -> None:
    """Each batch has facts of its own; the one that died before them is healed, unmeasured."""
    commits_of(ours.source, ["ours"] * 5)
    kill_at(ours, FaultPoint.BRONZE_APPENDED, tmp_path / "reached")
    assert recorded_batches(ours) == []
    ours.tables = {"dbo_ours": {"max_commits_per_batch": 2}}
    outcome = run_sync(ours).outcomes["dbo_ours"]
    assert outcome.rows == 5
    batches = recorded_batches(ours)
    assert [(row.batch_id, row.rows) for row in batches] == [(1, 1), (2, 2), (3, 2)]
    assert [row.read_seconds is None for row in batches] == [True, False, False]
    ours.assert_each_change_once("dbo_ours")
    load(ours, "dbo_ours")
    ours.assert_identical("dbo_ours", ("id", "v"))


@pytest.mark.sandbox
@ARROW
def test_what_is_done_is_recorded_though_the_table_fails_later(ours: Project) -> None:
    if not ours.source.server.is_sandbox:
        pytest.skip("only the sandbox fails at the statement it is asked to")
    commits_of(ours.source, ["ours"] * 3)
    # Each batch looks three times: for its end, its rows, and at them. The poll looks once.
    ours.source.execute(
        "EXEC sandbox.fault @kind = N'error', @table = N'cdc.dbo_ours_CT', @after = 6,"
        f" @login = N'{ours.source.server.reader_login}', @number = 50001"
    )
    (failed,) = sync(ours.database()).failed
    assert ours.source.rows("EXEC sandbox.faults") == []
    assert isinstance(failed.error, SourceQueryError)
    (first,) = recorded_batches(ours)
    assert (first.rows, first.read_seconds is None) == (1, False)
    control = ours.database().lake.control.read()["bronze/dbo_ours"]
    assert control.end_lsn == first.end_lsn
    assert run_sync(ours).outcomes["dbo_ours"].rows == 2
    ours.assert_each_change_once("dbo_ours")


@ARROW
def test_a_long_loop_records_what_is_done(ours: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second batch waits for what only the record of the first can bring about."""
    commits_of(ours.source, ["ours"] * 2)
    batch_end, waited = batch_module.batch_end, []

    def wait_for_the_first(*arguments: Any) -> Any:
        if waited:
            deadline = time.monotonic() + 60
            while not recorded_batches(ours):
                assert time.monotonic() < deadline, "the first batch's facts wait for the second"
                time.sleep(0.05)
        waited.append(True)
        return batch_end(*arguments)

    monkeypatch.setattr(recording, "RECORD_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(batch_module, "batch_end", wait_for_the_first)
    assert run_sync(ours).outcomes["dbo_ours"].rows == 2
    assert [(row.batch_id, row.rows) for row in recorded_batches(ours)] == [(1, 1), (2, 1)]


@ARROW
def test_a_long_loop_tells_of_each_batch_once(
    ours: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands: what is told and recorded grows with the batches, and not with their square."""
    commits_of(ours.source, ["ours"] * 8)
    read, told = advance_module.read_changes, []

    def count(*arguments: Any) -> TableOutcome:
        *others, tell = arguments

        def tell_and_count(outcome: TableOutcome) -> None:
            told.extend(entry.version for entry in outcome.facts)
            assert outcome.rows == 1
            tell(outcome)

        return read(*others, tell_and_count)

    monkeypatch.setattr(advance_module, "read_changes", count)
    assert run_sync(ours).outcomes["dbo_ours"].rows == 8
    assert told == [1, 2, 3, 4, 5, 6, 7]
    assert [(row.batch_id, row.read_seconds is None) for row in recorded_batches(ours)] == [
        (i, False) for i in range(1, 9)
    ]


@ARROW
def test_a_limit_across_two_instances(ours: Project) -> None:
    commits_of(ours.source, ["ours"] * 2)
    ours.source.enable("ours", instance="second")
    commits_of(ours.source, ["others"] + ["ours"] * 3)
    ours.tables = {"dbo_ours": {"max_commits_per_batch": 3}}
    assert run_sync(ours).outcomes["dbo_ours"].rows == 5
    assert [row.rows for row in recorded_batches(ours)] == [3, 2]
    read = [row["_capture_instance"] for row in ours.bronze("dbo_ours")]
    assert read == ["dbo_ours"] * 2 + ["second"] * 3
    ours.assert_each_change_once("dbo_ours")


@ARROW
def test_without_command_ids(project: Project) -> None:
    """As some builds of 2016: the order is that of the rows, in bronze and in silver."""
    create_items(project.source)
    project.tables = {TABLE: {"include_command_id": False}}
    project.extra = {"num_partitions": 3, "rows_per_range_min": 2}
    load(project)
    change_items(project.source)
    assert load(project)[0].rows > 10
    assert {row["_command_id"] for row in project.bronze(TABLE)} == {None}
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
