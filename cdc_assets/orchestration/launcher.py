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
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

ASK_SECONDS_MAX = 10
"""How long a code server may take to say whether it knows a run."""

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
        """Whether the run's process lives; running where nobody can know."""
        if lost := self._lost_here(run) if _is_local(run) else self._lost_there(run):
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, lost)
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def _lost_here(self, run: dg.DagsterRun) -> str:
        """Why a process of this machine is gone; "" where it lives, or the run told of none."""
        told = self._told(run)
        return f"its process {told[0]} is gone" if told and not lives(*told) else ""

    def _lost_there(self, run: dg.DagsterRun) -> str:
        """The same of a code server's that is reached by its port: the server is asked.

        One that does not answer may be on its way up again, and then knows no run of its past.
        """
        client = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if client is None:
            return ""
        request = CanCancelExecutionRequest(run_id=run.run_id)
        try:
            answer = client.can_cancel_execution(request, timeout=ASK_SECONDS_MAX)
        except DagsterUserCodeUnreachableError:
            return ""
        known = deserialize_value(answer, CanCancelExecutionResult).can_cancel
        return "" if known else "its code server has been started anew"

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
