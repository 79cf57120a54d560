"""What bronze's log says of its files: it answers most of an apply's questions without a row read.

The answers are those of the rows, or none: a query of one of its files takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.lake.features import has_marked_rows
from cdc_assets.lake.tables import file_columns, physical_names
from cdc_assets.lsn import Lsn

_COLUMNS = ("_start_lsn", "_operation", "_capture_instance")
_SNAPSHOT = 0


@dataclass(frozen=True, slots=True)
class RowFile:
    """One file: its rows, and the bounds of their columns; None where its statistics lack one."""

    rows: int | None
    last_lsn: str | None
    first_operation: int | None
    last_operation: int | None
    first_instance: str | None
    last_instance: str | None

    @property
    def may_hold_snapshot_rows(self) -> bool:
        """Whether a row of it may be a snapshot's."""
        return self.first_operation is None or self.first_operation <= _SNAPSHOT

    @property
    def may_hold_changes(self) -> bool:
        """Whether a row of it may be a change."""
        return self.last_operation is None or self.last_operation > _SNAPSHOT


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of a bronze at one version; with `has_marked_rows` some may be deleted in them."""

    files: tuple[RowFile, ...]
    has_marked_rows: bool

    @classmethod
    def of(cls, table: DeltaTable) -> RowFiles:
        """As the log of an opened table has them."""
        lsn, operation, instance = physical_names(table, _COLUMNS)
        names = (
            "num_records",
            f"max.{lsn}",
            f"min.{operation}",
            f"max.{operation}",
            f"min.{instance}",
            f"max.{instance}",
        )
        columns = file_columns(table, names)
        files = tuple(RowFile(*values) for values in zip(*columns, strict=True))
        return cls(files, has_marked_rows(table))

    def rows_above(self, position: Lsn) -> int:
        """Rows of the files that reach above a position: what an apply reads at most."""
        return sum(file.rows or 0 for file in self._reaching(position))

    def may_hold_snapshot_rows(self, above: Lsn | None) -> bool:
        """Whether there may be rows of a snapshot above an LSN; without one, at all."""
        return any(file.may_hold_snapshot_rows for file in self._reaching(above))

    def head_above(self, position: Lsn) -> tuple[Lsn | None] | None:
        """The newest change above a position, or that there is none; None where rows must tell.

        They must where a file has rows of a snapshot beside changes, or some that are deleted.
        """
        found = [file for file in self._reaching(position) if file.may_hold_changes]
        if not found:
            return (None,)
        lsns = [file.last_lsn for file in found if file.last_lsn is not None]
        is_mixed = any(file.may_hold_snapshot_rows for file in found)
        if self.has_marked_rows or is_mixed or len(lsns) < len(found):
            return None
        return (Lsn.parse(max(lsns)),)

    def instances_from(self, lsn: Lsn) -> frozenset[str] | None:
        """The capture instances of all files that reach an LSN; None where rows must tell."""
        found: set[str] = set()
        for file in self.files:
            if file.last_lsn is not None and file.last_lsn < str(lsn):
                continue
            if file.first_instance is None or file.first_instance != file.last_instance:
                return None
            found.add(file.first_instance)
        return frozenset(found)

    def _reaching(self, above: Lsn | None) -> Iterator[RowFile]:
        """The files with a row above an LSN, or of which that is not known; without one, all."""
        for file in self.files:
            if above is None or file.last_lsn is None or file.last_lsn > str(above):
                yield file
