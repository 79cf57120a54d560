"""The log's positions: how a database numbers its commits and the changes before them."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.lsn import Lsn

# A fresh database's first position: a virtual log file, a block, a slot.
FIRST = Lsn("0x0000002A000000800001")
_LOW_BITS = 48
_SLOT_BITS = 16


@dataclass(frozen=True, slots=True)
class Position:
    """A commit's LSN, and the position its changes count from (a file, and 48 bits in it)."""

    lsn: Lsn
    file: int
    base: int

    @property
    def prefix(self) -> str:
        """The 4 bytes of the file, as hex digits."""
        return f"{self.file:08X}"


def after(last: Lsn | None, changes: int) -> Position:
    """The next commit's position, with room for the `changes` log records before it.

    Every change's position lies after the last commit's and before this one's, and the commit
    starts a block, in the slot of the history that it belongs to: so LSNs look and order as SQL
    Server's do.
    """
    start = (last or FIRST).to_int()
    file, low = start >> _LOW_BITS, start & ((1 << _LOW_BITS) - 1)
    slot = _slot(start)
    end = (((low + changes) >> _SLOT_BITS) + 1 << _SLOT_BITS) | slot
    if end >> _LOW_BITS:
        file, low = file + 1, 0x10 << _SLOT_BITS | slot
        end = (((low + changes) >> _SLOT_BITS) + 1 << _SLOT_BITS) | slot
    return Position(Lsn.of_int(file << _LOW_BITS | end), file, low)


def forked(restored: Lsn, present: Lsn) -> Lsn:
    """Where a restored log goes on: its later commits are none that any history had before."""
    return Lsn.of_int(restored.to_int() - _slot(restored.to_int()) + _slot(present.to_int()) + 1)


def _slot(lsn: int) -> int:
    return lsn & ((1 << _SLOT_BITS) - 1)


def to_bytes(lsn: Lsn) -> bytes:
    """Its ten bytes."""
    return lsn.to_int().to_bytes(10, "big")


def of_bytes(value: bytes) -> Lsn:
    """The LSN of ten bytes."""
    return Lsn.of_int(int.from_bytes(value, "big"))
