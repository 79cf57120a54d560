"""Whether a lake does what everything here rests on: write, read, and refuse a second commit."""

from __future__ import annotations

import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_assets.errors import LakeUnavailableError
from cdc_assets.lake.failures import is_conflict, lake_failures
from cdc_assets.lake.files import Place
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.names import DatabaseName
from cdc_assets.settings.lakes import scheme_of

_ROW = pa.table({"probe": ["cdc-assets doctor"]})
_ONCE = CommitProperties(max_commit_retries=0)


def probe_lake(name: DatabaseName, options: StorageOptions) -> None:
    """Write a small table beside the bookkeeping, read it, commit one version twice, remove it.

    Raises `LakeUnavailableError` where the second commit is not refused: two writers would then
    undo each other's work without a word. What a lake out of reach raises comes out as it is.
    """
    folder = f"_cdc/probe-{uuid.uuid4()}"
    uri = f"{name.root}/{folder}"
    there = _existing(name.root)
    try:
        with lake_failures(uri):
            write_deltalake(uri, _ROW, mode="error", storage_options=dict(options))
            first, second = (DeltaTable(uri, storage_options=dict(options)) for _ in range(2))
            write_deltalake(first, _ROW, mode="append", commit_properties=_ONCE)
            if not _is_refused(second):
                raise LakeUnavailableError(
                    f"{name.root} let two writers make the same commit",
                    hint="Its store has to create files only where none is: on S3 set"
                    " `aws_conditional_put: etag` in `storage_options`, or use another store.",
                )
            DeltaTable(uri, storage_options=dict(options)).to_pyarrow_table()
    finally:
        _remove(name.root, folder, options, there)


def _is_refused(late: DeltaTable) -> bool:
    try:
        write_deltalake(late, _ROW, mode="append", commit_properties=_ONCE)
    except Exception as error:
        if is_conflict(error):
            return True
        raise
    return False


def _existing(root: str) -> Path | None:
    """The nearest folder above the probe that was there before; None for what is no folder."""
    if scheme_of(root):
        return None
    return next(
        path for path in (Path(root) / "_cdc", *Path(root, "_cdc").parents) if path.exists()
    )


def _remove(root: str, folder: str, options: StorageOptions, there: Path | None) -> None:
    """Take the probe away, and the empty folders that were made for it."""
    with suppress(OSError):
        if there is None:
            Place(root, options).open().delete_dir(folder)
            return
        shutil.rmtree(Path(root, folder))
        for path in Path(root, folder).parents:
            if path == there:
                return
            path.rmdir()
