"""What the Spark engine needs of the machine, looked at without importing pyspark."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from cdc_assets.errors import ExtraMissingError, JavaMissingError

JAVA_VERSION_MIN = 17
"""The oldest Java that Spark 4.2 runs on."""
JAVA_VERSIONS_SOUGHT = (17, 21)
"""Long-term versions that Spark is tested on; others only where JAVA_HOME or PATH names one."""

_SCALA = "2.13"
_JAVA_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines")
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def require_pyspark() -> None:
    """Raise `ExtraMissingError` unless the extra `spark` is installed; imports nothing."""
    missing = [name for name in ("pyspark", "delta") if find_spec(name) is None]
    if missing:
        raise ExtraMissingError(
            f"the Spark engine needs {' and '.join(missing)}, which is not installed",
            hint="Run: pip install 'cdc-assets[spark]', or set `engine: arrow`.",
        )


def delta_package() -> str:
    """Maven coordinates of the Delta jar that fits the installed pyspark and delta-spark."""
    try:
        spark = ".".join(version("pyspark").split(".")[:2])
        return f"io.delta:delta-spark_{spark}_{_SCALA}:{version('delta-spark')}"
    except PackageNotFoundError:
        require_pyspark()
        raise


def java_home() -> Path:
    """The Java to run Spark on: JAVA_HOME, PATH, then the newest of the versions sought.

    Raises `JavaMissingError` where none is new enough.
    """
    named = [home for home in _named_homes() if (java_version(home) or 0) >= JAVA_VERSION_MIN]
    if named:
        return named[0]
    found = [
        (number, home)
        for home in _installed_homes()
        if (number := java_version(home)) in JAVA_VERSIONS_SOUGHT
    ]
    if found:
        return max(found)[1]
    raise JavaMissingError(
        f"the Spark engine needs Java {JAVA_VERSION_MIN} or newer, and none was found",
        hint="Install a JRE (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME.",
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java installed in a folder, or None where there is none."""
    if not (home / "bin" / "java").exists():
        return None
    try:
        found = _RELEASE.search((home / "release").read_text(encoding="utf-8"))
    except OSError:
        return None
    return int(found.group(1)) if found else None


def _named_homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent


def _installed_homes() -> Iterator[Path]:
    for folder in map(Path, _JAVA_FOLDERS):
        if folder.is_dir():
            for home in sorted(folder.iterdir()):
                yield home / "Contents" / "Home" if folder.parts[1] == "Library" else home
