"""Writing a commit's files ourselves, where rows are so large that delta-rs would hold them all.

delta-rs gathers thousands of rows before it writes the first: of values of megabytes that is more
than a machine has. Here rows go to their file as soon as they are `ROW_GROUP_BYTES`, and all files
become one commit of delta-rs.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
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

from cdc_assets.lake.tables import StorageOptions

ROW_GROUP_BYTES = 8 << 20
"""Data of one row group: so much is held before it is written."""
FILE_BYTES = 256 << 20
"""Data after which a new file begins."""
STATISTICS_TEXT_LENGTH_MAX = 64
"""Longest text whose column still gets statistics in the log; LSNs have 22 characters."""


def append_files(
    table: DeltaTable,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    properties: CommitProperties,
    options: StorageOptions,
) -> None:
    """Append batches, which are exactly the table's columns, as one commit.

    The files of a commit that is not made are removed again. Raises delta-rs's errors.
    """
    place = PyFileSystem(DeltaStorageHandler(table.table_uri, options=dict(options)))
    written: list[AddAction | RemoveAction] = []
    try:
        for rows in _files(batches):
            written.append(_write(place, schema, rows))
        table.create_write_transaction(
            written, "append", table.schema(), commit_properties=properties
        )
    except BaseException:
        for action in written:
            with suppress(OSError):
                place.delete_file(action.path)
        raise


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows of about `ROW_GROUP_BYTES`, or one batch where that alone is more."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _files(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.Table]]:
    """The row groups of one file after the other; each must be read to its end."""
    groups = _groups(batches)
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


def _write(place: PyFileSystem, schema: pa.Schema, groups: Iterator[pa.Table]) -> AddAction:
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
    return AddAction(path, int(size or 0), {}, int(time.time() * 1000), True, found.to_json())


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
