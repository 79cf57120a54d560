"""What a run was measured on: processor, memory, versions, and who else was working there."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

_PACKAGES = ("cdc-assets", "arrow-odbc", "deltalake", "pyarrow", "dagster", "duckdb")
_BUSY_LOAD_PER_CORE = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine at the moment a run began."""

    hardware: str
    versions: str
    measured_at: str
    load: float
    cores: int

    @classmethod
    def here(cls) -> Machine:
        """This one, now."""
        cores = len(os.sched_getaffinity(0))
        return cls(
            hardware=f"{cores} cores of {_processor()}, {_memory_gib()} GiB, {_system()}",
            versions=_versions(),
            measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            load=os.getloadavg()[0],
            cores=cores,
        )

    @property
    def note(self) -> str | None:
        """A warning where other work ran when we began."""
        if self.load <= self.cores * _BUSY_LOAD_PER_CORE:
            return None
        return (
            f"The load average was {self.load:.1f} on {self.cores} cores before the run began:"
            " other work shared the machine, so seconds and rows/s are noisy. Ratios suffer less,"
            " since both sides take turns."
        )

    def described(self) -> dict[str, str | float]:
        """What each row keeps of it."""
        return {
            "hardware": self.hardware,
            "versions": self.versions,
            "measured_at": self.measured_at,
            "load_before": round(self.load, 1),
        }


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _memory_gib() -> int:
    found = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return round(int(found.group(1)) / 2**20) if found else 0


def _system() -> str:
    return f"{platform.system()} {platform.release()}"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return ", ".join(found)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
