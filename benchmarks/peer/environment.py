"""The peer's own virtual environment: made once, pinned, never mixed with ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.child import JsonChild

PINS = ("mssql-cdc-pyspark[arrow-odbc]==0.8.0", "pyspark==4.2.0", "delta-spark==4.4.0")
PEER = "mssql-cdc-pyspark 0.8.0"
ENVIRONMENT = Path(".cdc/bench/peer")
TUNING = "local Spark, 6 GB, 4 shuffle partitions, spark.databricks.delta.snapshotPartitions 2"

_MARKER = ".ready"
_ANSWER_SECONDS_MAX = 300
_INSTALL_SECONDS_MAX = 900


class PeerUnavailableError(Exception):
    """The peer cannot be run here; the message says what is missing."""


def peer_python(folder: Path) -> Path:
    """The interpreter of the peer's environment, which is made where it is missing.

    Raises `PeerUnavailableError` without Java or where the packages cannot be installed.
    """
    if shutil.which("java") is None:
        raise PeerUnavailableError("the peer needs Java on the PATH: run `make setup-spark`")
    python = folder / "bin" / "python"
    marker = folder / _MARKER
    pins = "\n".join(PINS)
    if python.exists() and marker.exists() and marker.read_text(encoding="utf-8") == pins:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", str(folder))
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-input", *PINS)
    # Written last: an environment that was interrupted is made anew.
    marker.write_text(pins, encoding="utf-8")
    return python


def peer_child(
    script: str, folder: Path, *, answer_seconds_max: float = _ANSWER_SECONDS_MAX
) -> JsonChild:
    """Start a script of this folder in the peer's environment; its log goes to `folder`."""
    python = peer_python(ENVIRONMENT.absolute())
    folder.mkdir(parents=True, exist_ok=True)
    return JsonChild(
        [str(python), str(Path(__file__).with_name(script))],
        log=folder / "peer.log",
        answer_seconds_max=answer_seconds_max,
        # Its packages must be its own: no path of ours may lead it to others.
        environment={"PYTHONPATH": "", "VIRTUAL_ENV": ""},
    )


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS_MAX,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(
            f"`{' '.join(command)}` took longer than {_INSTALL_SECONDS_MAX} s"
        ) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise PeerUnavailableError(f"`{' '.join(command)}` failed: {' '.join(said)}")
