"""Server cursors (sp_cursoropen and its kin): static and read-only, whatever was asked for.

SQL Server too converts a cursor that a statement does not allow, and returns what it made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from cdc_assets.sandbox.results import (
    Failed,
    Message,
    OutputParameters,
    Parameter,
    Result,
    ResultColumn,
    ResultSet,
    SqlError,
    SqlType,
)
from cdc_assets.sandbox.wire.limits import MAX_CURSOR_BYTES, MAX_CURSORS

_INT = SqlType("int")
_ROW_STATUS = ResultColumn("ROWSTAT", _INT, nullable=False, hidden=True)
_FETCHED = 1
_STATIC, _FORWARD_ONLY, _FAST_FORWARD = 0x8, 0x4, 0x10
_READ_ONLY = 0x1
# What sp_cursorfetch may be asked for.
_FIRST, _NEXT, _PREVIOUS, _LAST, _ABSOLUTE, _RELATIVE = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20
_REFRESH, _INFO, _PREVIOUS_UNADJUSTED = 0x80, 0x100, 0x200


_MEMORY = "There is insufficient memory in the sandbox for {}: use a default result set."


@dataclass(frozen=True, slots=True)
class Places:
    """Where a procedure has its cursor, and the first of scrollopt, ccopt and rowcount."""

    cursor: int
    options: int


@dataclass(slots=True)
class _Cursor:
    """The rows of a cursor and the window that was fetched last."""

    columns: tuple[ResultColumn, ...]
    rows: list[pa.RecordBatch]
    total: int
    start: int = 0
    """The first row of the window, from 1; 0 is before the first."""
    size: int = 0

    def move(self, kind: int, number: int, count: int) -> None:
        """Move the window as a fetch of `kind` asks."""
        total = self.total
        if kind == _REFRESH:
            return
        start = {
            _FIRST: 1,
            _NEXT: self.start + max(self.size, 1),
            _PREVIOUS: self.start - count,
            _PREVIOUS_UNADJUSTED: self.start - count,
            _LAST: max(1, total - count + 1),
            _ABSOLUTE: number if number >= 0 else total + number + 1,
            _RELATIVE: self.start + number,
        }.get(kind)
        if start is None:
            raise SqlError(
                16902, "sp_cursorfetch: The value of the parameter 'fetchtype' is invalid."
            )
        if start < 1 and kind == _PREVIOUS and self.start > 1:
            start = 1
        if kind == _PREVIOUS_UNADJUSTED and start < 1:
            count, start = max(0, self.start - 1), 1 if self.start > 1 else 0
        self.start = min(max(start, 0), total + 1)
        self.size = min(count, total - self.start + 1) if self.start else 0

    def window(self) -> ResultSet:
        """The rows of the window, each with its status."""
        batches: list[pa.RecordBatch] = []
        if self.size:
            rows = pa.Table.from_batches(self.rows).slice(self.start - 1, self.size)
            status = pa.array([_FETCHED] * self.size, pa.int32())
            batches = rows.append_column("rowstat", status).to_batches()
        return ResultSet((*self.columns, _ROW_STATUS), iter(batches))


class Cursors:
    """The cursors of one connection."""

    def __init__(self) -> None:
        self._open: dict[int, _Cursor] = {}
        self._handles = itertools.count(180_150_003, 2)
        self.procedures: dict[str, Callable[[tuple[Parameter, ...]], Iterator[Result]]] = {
            "sp_cursorfetch": self._fetch,
            "sp_cursorclose": self._close,
            "sp_cursoroption": self._option,
            "sp_cursor": self._change,
        }

    def forget(self) -> None:
        """Close all, as a connection reset does."""
        self._open.clear()

    def open(
        self, results: Iterator[Result], parameters: tuple[Parameter, ...], places: Places
    ) -> Iterator[Result]:
        """Open a cursor on the rows of a statement; one without is run as it is."""
        head = next(results, None)
        if isinstance(head, Failed):
            raise head.error
        rows = _read(head, results) if isinstance(head, ResultSet) else None
        following = next(results, None)
        scroll = _number(parameters, places.options, _STATIC)
        made = {places.options: scroll, places.options + 1: _READ_ONLY}
        if not isinstance(head, ResultSet) or rows is None or following is not None:
            yield Message(16954, "Executing SQL directly; no cursor.", 10)
            if isinstance(head, ResultSet) and rows is not None:
                head = ResultSet(head.columns, iter(rows), head.command)
            yield from (result for result in (head, following) if result is not None)
            yield from results
            yield _outputs(parameters, {places.cursor: 0, **made, places.options + 2: 0})
            return
        if len(self._open) >= MAX_CURSORS:
            raise SqlError(701, _MEMORY.format("one more cursor"), 17)
        handle = next(self._handles)
        cursor = _Cursor(head.columns, rows, sum(batch.num_rows for batch in rows))
        self._open[handle] = cursor
        yield ResultSet((*head.columns, _ROW_STATUS), iter(()))
        made[places.options] = scroll & (_FORWARD_ONLY | _FAST_FORWARD) or _STATIC
        made |= {places.cursor: handle, places.options + 2: cursor.total}
        yield _outputs(parameters, made)

    def _fetch(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursorfetch cursor [, fetchtype [, rownum [, nrows]]]."""
        cursor = self._find(parameters, "sp_cursorfetch")
        kind = _number(parameters, 1, _NEXT) & ~0x400
        if kind == _INFO:
            yield _outputs(parameters, {2: cursor.start, 3: cursor.total})
            return
        cursor.move(kind, _number(parameters, 2, 0), max(0, _number(parameters, 3, 20)))
        yield cursor.window()

    def _close(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        self._find(parameters, "sp_cursorclose")
        del self._open[_number(parameters, 0, 0)]
        yield from ()

    def _option(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursoroption: names and text pointers change nothing here."""
        self._find(parameters, "sp_cursoroption")
        yield from ()

    def _change(self, parameters: tuple[Parameter, ...]) -> Iterator[Result]:
        """sp_cursor changes rows, which a read-only cursor refuses."""
        self._find(parameters, "sp_cursor")
        raise SqlError(16929, "The cursor is READ ONLY.")

    def _find(self, parameters: tuple[Parameter, ...], name: str) -> _Cursor:
        handle = _number(parameters, 0, 0)
        found = self._open.get(handle)
        if found is None:
            raise SqlError(
                16909, f"{name}: The cursor identifier value provided ({handle:x}) is not valid."
            )
        return found


def _read(result: ResultSet, results: Iterator[Result]) -> list[pa.RecordBatch]:
    """All rows of a result; Msg 701 where they are too many to hold."""
    batches: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in result.batches:
            size += batch.nbytes
            if size > MAX_CURSOR_BYTES:
                raise SqlError(
                    701, _MEMORY.format(f"a cursor of over {MAX_CURSOR_BYTES} bytes"), 17
                )
            batches.append(batch)
    except SqlError:
        # The session tells what becomes of its error when it is asked for the next result.
        failed = next(results, None)
        if isinstance(failed, Failed):
            raise failed.error from None
        raise
    return batches


def _number(parameters: tuple[Parameter, ...], place: int, default: int) -> int:
    value = parameters[place].value if place < len(parameters) else None
    return value if isinstance(value, int) else default


def _outputs(parameters: tuple[Parameter, ...], values: dict[int, int]) -> OutputParameters:
    """The values that the client takes back, by their places."""
    return OutputParameters(
        0,
        tuple(
            (parameters[place].name or f"@{place}", _INT, value)
            for place, value in sorted(values.items())
            if place < len(parameters) and parameters[place].output
        ),
    )
