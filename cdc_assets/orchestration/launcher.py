"""The run launcher of `dagster.yaml`: Dagster's own, which also sees that a run's process is gone.

A run whose code server dies with it (a power cut, a container that is replaced, Ctrl-C of
`cdc-assets up` in the middle of a run) is told by nobody: Dagster's launcher has no answer when run
monitoring asks for it, so the run stays started for ever, and with it its pool and its schedule.
Decision 0032.
"""

import json
import os
import re
from pathlib import Path

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.tags import GRPC_INFO_TAG

CLOCK_SECONDS_MAX = 5.0
"""How far a process's begin may seem to be after what it told: the clock of the boot is coarse."""

_PID = re.compile(r"Started process for run \(pid: (\d+)\)")
"""What a run's process writes first into its log; steps may tell of processes of their own."""


class WatchedRunLauncher(DefaultRunLauncher):
    """Starts runs as Dagster does, and tells run monitoring which have lost their process."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Yes, in contrast to Dagster's own."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process lives; running where this machine cannot know."""
        if not _is_local(run):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        told = self._told(run)
        if told is None or lives(*told):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"its process {told[0]} is gone")

    def _told(self, run: dg.DagsterRun) -> tuple[int, float] | None:
        """The process that the run told of last, and when; None where it told of none."""
        entries = self._instance.event_log_storage.get_logs_for_run(
            run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT
        )
        for entry in reversed(entries):
            if found := _PID.search(entry.message):
                return int(found.group(1)), entry.timestamp
        return None


def _is_local(run: dg.DagsterRun) -> bool:
    """Whether the run's code server is reached by a socket file, so that it is on this machine."""
    return "socket" in json.loads(run.tags.get(GRPC_INFO_TAG, "{}"))


def lives(pid: int, since: float) -> bool:
    """Whether the process that had an id at a time (seconds since 1970) still has it.

    After a restart of a container another process may: one that began later is another.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/stat").read_text()
    except OSError:
        return not Path("/proc/self/stat").exists() and _is_there(pid)
    # The command's name may hold blanks and brackets; what follows the last one is numbers.
    state, *numbers = status.rpartition(")")[2].split()
    booted = next(int(line.split()[1]) for line in boot.splitlines() if line.startswith("btime"))
    began = booted + int(numbers[18]) / os.sysconf("SC_CLK_TCK")
    return state != "Z" and began <= since + CLOCK_SECONDS_MAX


def _is_there(pid: int) -> bool:
    """The same where the system has no /proc: whether anybody has the id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
