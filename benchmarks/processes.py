"""What a process has taken, as the kernel accounts for it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)
_FORGET_PEAK = "5"


class Process:
    """A process of this machine; one's own without an id.

    Not `getrusage`: what it calls the peak counts the parent's memory before the program began.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._folder = Path("/proc") / str(pid or os.getpid())

    def peak_mb(self) -> float:
        """The most resident memory since `forget_peak`, in MB of 2^20 bytes."""
        found = _PEAK.search((self._folder / "status").read_text())
        if found is None:
            raise ValueError("the kernel does not say VmHWM")
        return int(found.group(1)) / 1024

    def forget_peak(self) -> None:
        """Begin the peak anew at what is resident now."""
        (self._folder / "clear_refs").write_text(_FORGET_PEAK)
