"""A lake that fails: a sentence that names the table and what to do, and nothing half-written."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from cdc_assets.errors import CdcError, LakeDamagedError, LakeUnavailableError
from cdc_assets.ingest.seeding import seed
from cdc_assets.ingest.sync import sync
from cdc_assets.lsn import Lsn
from cdc_assets.silver.apply import apply_tables
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
ARROW = pytest.mark.parametrize("engine_name", ["arrow"], indirect=True)
PLACES = {
    "bronze": f"bronze/{TABLE}",
    "silver": f"silver/{TABLE}",
    "facts": "_cdc/facts",
    "control": "_cdc/control",
}
FILE_BYTES_MAX = 3_000
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def place(project: Project, kind: str) -> Path:
    return project.folder / "lake" / project.key / PLACES[kind]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newest(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def cut_the_log(table: Path) -> None:
    cut(newest(table))


def write_nonsense(table: Path) -> None:
    newest(table).write_bytes(b"\0hello\n")


def cut_the_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    for path in (table / "_delta_log").glob("*.json"):
        path.unlink()
    for path in (table / "_delta_log").glob("*.parquet"):
        cut(path)


def lose_the_checkpoint(table: Path) -> None:
    cut_the_checkpoint(table)
    for path in (table / "_delta_log").glob("*.parquet"):
        path.unlink()


def cut_the_files(table: Path) -> None:
    for path in table.glob("*.parquet"):
        cut(path)


def lose_the_files(table: Path) -> None:
    for path in table.glob("*.parquet"):
        path.unlink()


LOG = (cut_the_log, write_nonsense, cut_the_checkpoint, lose_the_checkpoint)
DAMAGES = [
    *((kind, damage) for kind in PLACES for damage in LOG),
    *((kind, damage) for kind in ("silver", "facts", "control") for damage in
      (cut_the_files, lose_the_files)),
]  # fmt: skip


def errors(project: Project) -> list[CdcError]:
    """What a sync and an apply say, whether of a table or of all."""
    found: list[CdcError] = []
    for call in (
        lambda: [one.error for one in sync(project.database()).failed],
        lambda: [one.error for one in apply_tables(project.database(), [TABLE]).values()],
    ):
        try:
            found += [error for error in call() if error is not None]
        except CdcError as error:
            found.append(error)
    return found


@ARROW
def test_a_damaged_table_is_named_and_left_alone(items: Project) -> None:
    """Each kind of table with each kind of damage; from a copy all goes on as if it never was."""
    load(items)
    change_items(items.source)
    lake, copy = items.folder / "lake", items.folder / "copy"
    shutil.copytree(lake, copy)
    for kind, damage in DAMAGES:
        case = f"{kind}, {damage.__name__}"
        table = place(items, kind)
        damage(table)
        left = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
        found = errors(items)
        assert found, case
        for error in found:
            assert isinstance(error, LakeDamagedError), f"{case}: {error!r}"
            assert PLACES[kind] in str(error), case
            assert len(str(error).splitlines()) == 1, case
            assert error.hint, case
        assert {path: path.read_bytes() for path in left} == left, case
        shutil.rmtree(lake)
        shutil.copytree(copy, lake)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@pytest.mark.spark
@pytest.mark.parametrize("engine_name", ["spark"], indirect=True)
def test_spark_says_the_same_of_a_damaged_file(items: Project) -> None:
    """Found in a task: the reason stands deep in a Java exception."""
    load(items)
    place(items, "bronze")
    cut_the_files(place(items, "bronze"))
    shutil.rmtree(place(items, "silver"))
    found = errors(items)
    assert [type(error) for error in found] == [LakeDamagedError]
    assert PLACES["bronze"] in str(found[0]) or "part-" in str(found[0])
    assert len(str(found[0]).splitlines()) == 1


@ARROW
def test_what_an_error_names_as_the_way_out_is_one(items: Project) -> None:
    """A damaged silver or control is removed, a damaged bronze too, with a reset."""
    load(items)
    change_items(items.source)
    for kind in ("silver", "control"):
        cut_the_log(place(items, kind))
        (error, *_) = errors(items)
        assert "emove its folder" in error.hint
        shutil.rmtree(place(items, kind))
        load(items)
        items.assert_identical(TABLE, COLUMNS)
    cut_the_log(place(items, "bronze"))
    (error, *_) = errors(items)
    assert "cdc-assets reset" in error.hint
    shutil.rmtree(place(items, "bronze"))
    assert command(items, "reset", items.key, TABLE, "--yes").returncode == 0
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@ARROW
@pytest.mark.parametrize("at", ["lake", "lake/sales", "lake/sales/bronze"])
def test_a_file_where_a_folder_belongs(items: Project, at: str) -> None:
    blocker = items.folder / at
    blocker.parent.mkdir(parents=True, exist_ok=True)
    blocker.write_text("mine")
    found = errors(items)
    assert found
    assert all(isinstance(error, LakeUnavailableError) for error in found), found
    assert "does a file stand in its way?" in str(found[0])
    assert blocker.read_text() == "mine"
    blocker.unlink()
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def command(
    project: Project, *words: str, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line in a process that may be limited first."""
    return subprocess.run(
        [sys.executable, "-c", "from cdc_assets.cli import main; main()", *words],
        env={**os.environ, "CDC_TABLES": str(project.write())},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=limit,
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a command that failed; a thread of delta-rs may write its own before it."""
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.endswith("]")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


def no_override() -> None:
    """Root may write anywhere: take that away from what is started, else nothing is to be seen."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@ARROW
def test_a_full_disk(items: Project) -> None:
    """No file may grow beyond a few kilobytes: at first, and with the table loaded."""
    assert "there is no space left for" in refusal(
        command(items, "sync", items.key, limit=small_files_only)
    )
    load(items)
    many = ", ".join(f"({i}, N'{i * 7919:x}{i * 104729:x}')" for i in range(1000, 1900))
    items.source.execute(f"INSERT INTO dbo.items (id, name) VALUES {many}")
    items.source.captured()
    before = place(items, "bronze") / "_delta_log"
    commits = sorted(path.name for path in before.glob("*.json"))
    said = refusal(command(items, "sync", items.key, limit=small_files_only))
    assert "[lake_unavailable]" in said
    assert "run it again" in said
    assert sorted(path.name for path in before.glob("*.json")) == commits
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@ARROW
def test_no_right_to_write(items: Project) -> None:
    load(items)
    change_items(items.source)
    for kind in ("bronze", "facts"):
        folders = [p for p in (place(items, kind), *place(items, kind).rglob("*")) if p.is_dir()]
        for folder in folders:
            folder.chmod(0o555)
        said = refusal(command(items, "sync", items.key, limit=no_override))
        for folder in folders:
            folder.chmod(0o755)
        assert "may not be read or written" in said
        assert PLACES[kind] in said
        assert "[lake_unavailable]" in said
    load(items)
    items.assert_identical(TABLE, COLUMNS)
    items.assert_each_change_once(TABLE)


@ARROW
def test_a_full_disk_while_a_copy_is_written(items: Project) -> None:
    """It says what every other write says, and the same seed goes on."""
    change_items(items.source)
    lsn, many = Lsn(items.source.captured()), 2_000
    columns = {
        "id": pa.array(range(many), pa.int32()),
        "name": [f"{i * 7919:x}{i * 104729:x}" for i in range(many)],
        **{name: pa.nulls(many) for name in ("price", "at", "note")},
    }
    copy = pa.table(columns)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)

    def filling() -> Iterator[pa.RecordBatch]:
        (batch,) = copy.to_batches()
        yield batch.slice(0, 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, most[1]))
        yield batch.slice(1)

    reader = pa.RecordBatchReader.from_batches(copy.schema, filling())
    try:
        with pytest.raises(LakeUnavailableError, match=r"there is no space left for .*bronze"):
            seed(items.database(), TABLE, reader, lsn)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert items.bronze(TABLE) == []
    assert seed(items.database(), TABLE, copy, lsn).rows == many
