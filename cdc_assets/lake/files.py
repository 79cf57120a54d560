"""Files of a commit written by us, and the commit that adds them.

delta-rs gathers thousands of rows before it writes the first: of values of megabytes that is more
than a machine has. And it writes in one process, where a read may be spread over many. Here rows go
to their file as soon as they are a row group, wherever they are read, and all files become one
commit of delta-rs.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import PyFileSystem

from cdc_assets.contract import Column
from cdc_assets.lake.features import asks_each_row, unwritable
from cdc_assets.lake.tables import StorageOptions, columns_of, is_mapped

ROW_GROUP_BYTES = 32 << 20
"""Data of one row group: so much is held before it is written."""
LARGE_VALUES_GROUP_BYTES = 8 << 20
"""The same where one value may be as large: its page and the encoder's copies come on top."""
FILE_BYTES = 256 << 20
"""Data after which a new file begins."""
STATISTICS_TEXT_LENGTH_MAX = 64
"""Longest text whose column still gets statistics in the log; LSNs have 22 characters."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that no commit has added yet: its path in the table, and what the log will say."""

    path: str
    bytes: int
    statistics: str

    def action(self) -> AddAction:
        """Its entry in a commit."""
        return AddAction(self.path, self.bytes, {}, int(time.time() * 1000), True, self.statistics)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table's files go: its URI and, never shown, the way in as delta-rs names it."""

    uri: str
    options: StorageOptions = field(default_factory=dict, repr=False)

    def open(self) -> PyFileSystem:
        """The table's folder."""
        return PyFileSystem(DeltaStorageHandler(self.uri, options=dict(self.options)))


def write_files(
    place: Place,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    group_bytes: int = ROW_GROUP_BYTES,
) -> list[DataFile]:
    """Write batches of exactly `schema`; where they end in an error, their files go again."""
    folder = place.open()
    written: list[DataFile] = []
    try:
        for rows in _files(batches, group_bytes):
            written.append(_write(folder, schema, rows))
    except BaseException:
        _remove(folder, written)
        raise
    return written


def commit_files(
    table: DeltaTable, files: Sequence[DataFile], properties: CommitProperties
) -> None:
    """Add files as one commit. Raises delta-rs's errors.

    After an error they stay, for vacuum to find: a store may have lost its answer, and made the
    commit all the same.
    """
    actions: list[AddAction | RemoveAction] = [file.action() for file in files]
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)


def takes_files(table: DeltaTable, columns: tuple[Column, ...]) -> bool:
    """Whether files of these columns may be added as they are.

    New columns and other types, mapped names, partitions and what a writer must look at each row
    for are left to the libraries.
    """
    types = {column.name: column.type for column in columns_of(table)}
    return (
        all(types.get(column.name) == column.type for column in columns)
        and not is_mapped(table)
        and not table.metadata().partition_columns
        and not asks_each_row(table)
        and not unwritable(table)
    )


def _remove(folder: PyFileSystem, files: Iterable[DataFile]) -> None:
    for file in files:
        with suppress(OSError):
            folder.delete_file(file.path)


def _groups(batches: Iterable[pa.RecordBatch], group_bytes: int) -> Iterator[pa.Table]:
    """Rows of about `group_bytes`, or one batch where that alone is more."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= group_bytes:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _files(batches: Iterable[pa.RecordBatch], group_bytes: int) -> Iterator[Iterator[pa.Table]]:
    """The row groups of one file after the other; each must be read to its end."""
    groups = _groups(batches, group_bytes)
    first = next(groups, None)
    while first is not None:
        file = _File(first, groups)
        yield file.groups()
        first = file.next


@dataclass(slots=True)
class _File:
    first: pa.Table
    rest: Iterator[pa.Table]
    next: pa.Table | None = None

    def groups(self) -> Iterator[pa.Table]:
        size, group = 0, self.first
        while True:
            size += group.nbytes
            yield group
            self.next = next(self.rest, None)
            if self.next is None or size >= FILE_BYTES:
                return
            group = self.next


def _write(place: PyFileSystem, schema: pa.Schema, groups: Iterator[pa.Table]) -> DataFile:
    path, found = f"part-{uuid.uuid4()}.snappy.parquet", _Statistics(schema)
    try:
        with (
            place.open_output_stream(path) as stream,
            pq.ParquetWriter(
                stream, schema, compression="snappy", write_statistics=_never_large(schema)
            ) as writer,
        ):
            for group in groups:
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
                found.see(group)
    except BaseException:
        with suppress(OSError):
            place.delete_file(path)
        raise
    size = place.get_file_info(path).size
    if not size:
        # Readers plan by it: of a file said to be empty they read nothing.
        raise OSError(f"the store tells no size of the file {path}, which was just written")
    return DataFile(path, size, found.to_json())


def _never_large(schema: pa.Schema) -> list[str]:
    """Columns whose values the file may keep for its own statistics, which cost several copies."""
    return [f.name for f in schema if f.name.startswith("_") or not _may_be_large(f.type)]


def _may_be_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@dataclass(slots=True)
class _Statistics:
    """What the log says of a file's columns, so that readers skip it.

    Columns of long text, binaries, floats and decimals have counts of NULLs alone.
    """

    schema: pa.Schema
    rows: int = 0
    nulls: dict[str, int] = field(default_factory=dict)
    low: dict[str, Any] = field(default_factory=dict)
    high: dict[str, Any] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def see(self, group: pa.Table) -> None:
        self.rows += group.num_rows
        for name, values in zip(group.column_names, group.columns, strict=True):
            self.nulls[name] = self.nulls.get(name, 0) + values.null_count
            if not _is_ordered(values):
                self.unknown.add(name)
            elif name not in self.unknown and values.null_count < len(values):
                ends = pc.min_max(values).as_py()
                self.low[name] = min(ends["min"], self.low.get(name, ends["min"]))
                self.high[name] = max(ends["max"], self.high.get(name, ends["max"]))

    def to_json(self) -> str:
        def known(values: dict[str, Any]) -> dict[str, Any]:
            return {n: _text(v) for n, v in values.items() if n not in self.unknown}

        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": known(self.low),
                "maxValues": known(self.high),
                "nullCount": self.nulls,
            }
        )


def _is_ordered(values: pa.ChunkedArray) -> bool:
    kind = values.type
    if pa.types.is_string(kind):
        longest = pc.max(pc.utf8_length(values)).as_py()
        return longest is None or longest <= STATISTICS_TEXT_LENGTH_MAX
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _text(value: Any) -> Any:
    """A bound as the log has it; Python orders texts by code point, as UTF-8's bytes are.

    Times are whole: cut to milliseconds, a reader might skip the file of a later microsecond.
    """
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else text + "Z"
    return value.isoformat() if isinstance(value, date) else value
