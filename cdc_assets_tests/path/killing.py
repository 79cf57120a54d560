"""The command line in a process group of its own, killed at a named fault point.

It stops at the point and says so in a file; then the whole group is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdc_assets import faults
from cdc_assets.faults import FaultPoint
from cdc_assets_tests.source import Project

REACH_SECONDS_MAX = 120.0


def kill_at(
    project: Project, point: FaultPoint, file: Path, *options: str, command: str = "sync"
) -> None:
    """Run `cdc-assets` in another process and kill it at a point, its JVM too."""
    environment = {
        **os.environ,
        "CDC_TABLES": str(project.write()),
        faults.POINT_VARIABLE: point,
        faults.FILE_VARIABLE: str(file),
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from cdc_assets.cli import main; main()",
            command,
            project.key,
            *options,
        ],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + REACH_SECONDS_MAX
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"{point} was not reached:\n{process.communicate()[0]}")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
