"""Log sequence numbers: SQL Server's binary(10), here always a value of one type.

An LSN crosses every boundary (T-SQL, JSON, Delta, Spark) as text: `0x` and 20 upper-case hex
digits. The width is fixed, so the order of texts is the order of LSNs.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_TEXT = re.compile(r"0[xX][0-9a-fA-F]{20}")
_MAX = (1 << 80) - 1
_KNOWN_MAX = 4_096
"""Texts whose LSN is remembered: a sync of many quiet tables reads the same few again and again."""


@dataclass(frozen=True, order=True, slots=True)
class Lsn:
    """A commit's place in the log; ordered, hashable, and printed as its text.

    >>> Lsn.parse("0x0000002a000080810001").next()
    Lsn('0x0000002A000080810002')
    """

    text: str

    def __post_init__(self) -> None:
        if not _TEXT.fullmatch(self.text):
            raise ValueError(f"not an LSN: {self.text!r} (expected 0x and 20 hex digits)")
        object.__setattr__(self, "text", "0x" + self.text[2:].upper())

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read an LSN from its text; raises ValueError for anything else."""
        return _parsed(text)

    @classmethod
    def parse_optional(cls, text: str | None) -> Lsn | None:
        """Read an LSN, where SQL Server's NULL and 0x00… both mean "none yet, or not allowed"."""
        if text is None:
            return None
        lsn = _parsed(text)
        return None if lsn.is_zero else lsn

    @classmethod
    def of_int(cls, value: int) -> Lsn:
        """The LSN whose ten bytes, read big-endian, are `value`."""
        if not 0 <= value <= _MAX:
            raise ValueError(f"an LSN has 10 bytes: {value} does not fit")
        return cls(f"0x{value:020X}")

    @property
    def is_zero(self) -> bool:
        """Whether it is 0x00…, which SQL Server gives for an unknown instance."""
        return self.to_int() == 0

    def to_int(self) -> int:
        """The ten bytes read big-endian."""
        return int(self.text, 16)

    def next(self) -> Lsn:
        """The LSN one above, as `sys.fn_cdc_increment_lsn` gives it."""
        return Lsn.of_int(self.to_int() + 1)

    def previous(self) -> Lsn:
        """The LSN one below, as `sys.fn_cdc_decrement_lsn` gives it."""
        return Lsn.of_int(self.to_int() - 1)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Lsn({self.text!r})"


@functools.lru_cache(_KNOWN_MAX)
def _parsed(text: str) -> Lsn:
    return Lsn(text)
