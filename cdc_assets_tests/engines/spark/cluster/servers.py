"""A Spark Connect server, and a standalone master with two workers, on loopback.

Made of the installed pyspark as a user would: its own scripts, Delta's jar from where the engine
has it, and for Python this interpreter, in which the project is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from cdc_assets.engines.spark.installed import delta_package, java_home
from cdc_assets_tests.source import SHORT_JVM

ROOT = Path(__file__).parents[4]
LOOPBACK = "127.0.0.1"
START_SECONDS_MAX = 120
LINES_MAX = 400
WORKERS = 2
_HOME = Path(pyspark.__file__).parent


class Process:
    """A process that says in a line of its log when it is ready, and what its address is."""

    def __init__(self, name: str, command: list[str], env: Mapping[str, str], ready: str) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self._ready = re.compile(ready)
        self._found: re.Match[str] | None = None
        self._told = threading.Event()
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def address(self) -> str:
        """What its line of readiness names."""
        assert self._told.wait(START_SECONDS_MAX), "\n".join(self.lines)
        assert self._found is not None, "it ended:\n" + "\n".join(self.lines)
        return self._found[1]

    def end(self) -> None:
        """End it, and what it started."""
        self._process.terminate()
        self._process.wait(START_SECONDS_MAX)
        self._thread.join(START_SECONDS_MAX)

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            if self._found is None and (found := self._ready.search(line)):
                self._found = found
                self._told.set()
        self._told.set()


def _environment(folder: Path) -> dict[str, str]:
    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def connect_server(folder: Path, events: Path) -> Iterator[str]:
    """A server with Delta's jar alone; its address. What it logs of sessions goes to `events`."""
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.extraJavaOptions": SHORT_JVM,
        "spark.sql.codegen.wholeStage": "false",
        "spark.python.use.daemon": "false",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    command = [
        str(_HOME / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-memory", "1g", "--packages", delta_package()),
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]
    ready = r"Spark Connect server started at: \S*?:(\d+)\s*$"
    server = Process("spark-connect", command, _environment(folder), ready)
    try:
        yield f"sc://{LOOPBACK}:{server.address()}"
    finally:
        server.end()


@contextmanager
def standalone_master(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each; the master's address."""
    command = [str(_HOME / "bin" / "spark-class")]
    daemons = {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": SHORT_JVM}
    env = _environment(folder) | daemons
    with ExitStack() as started:
        master = Process(
            "spark-master",
            [
                *(*command, "org.apache.spark.deploy.master.Master"),
                *("--host", LOOPBACK, "--port", "0", "--webui-port", "0"),
            ],
            env,
            r"Starting Spark master at (spark://\S+)",
        )
        started.callback(master.end)
        address = master.address()
        workers = []
        for number in range(WORKERS):
            work = folder / f"worker{number}"
            worker = Process(
                f"spark-worker-{number}",
                [
                    *(*command, "org.apache.spark.deploy.worker.Worker"),
                    *("--host", LOOPBACK, "--port", "0", "--webui-port", "0"),
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(work), address),
                ],
                env,
                r"Successfully registered with master (\S+)",
            )
            started.callback(worker.end)
            workers.append(worker)
        for worker in workers:
            worker.address()
        yield address
