"""Spark in this process: one JVM, started late, never stopped by us.

Its tasks run in threads of that JVM, or on a cluster whose driver it is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from cdc_assets.engines.spark.config import SESSION_CONF, SessionConfig
from cdc_assets.engines.spark.installed import delta_package, java_home
from cdc_assets.engines.spark.storage import REDACTED
from cdc_assets.errors import CdcError, ExtraMissingError

_LOOPBACK = "127.0.0.1"
_STARTUP_LINES_MAX = 400
_LAST_WORDS_SECONDS = 2.0
_FETCH_SECONDS_MAX = 600.0
"""How long to wait for other processes that start Spark, of which one may fetch its jars."""

_PACKAGES = "spark.jars.packages"
_IVY = "spark.jars.ivy"
_IVY_FOLDER = ".ivy2.5.2"
"""Where Spark keeps what it has fetched, in the user's home, unless it is told otherwise."""

_REASON = re.compile(r"(?:Exception|Error): (.+)")

_CONTEXT_CONF = {
    "spark.app.name": "cdc-assets",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    # What fails is raised; the log would say it again, over hundreds of lines.
    "spark.log.level": "FATAL",
}
_LOCAL_CONF = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.memory": "2g",
}

_starting = threading.Lock()


def root_session(config: SessionConfig) -> SparkSession:
    """The session that all others of this process are made from.

    Raises `JavaMissingError`, and `ExtraMissingError` where Delta's jar cannot be had.
    """
    with _starting:
        return _root(config)


@functools.cache
def _root(config: SessionConfig) -> SparkSession:
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(config.master)
    given = dict(config.conf)
    ours = {**_CONTEXT_CONF, **SESSION_CONF, **(_LOCAL_CONF if config.is_local else {})}
    if not {_PACKAGES, "spark.jars"} & set(given):
        ours[_PACKAGES] = ",".join((delta_package(), *config.packages))
    for key, value in {**ours, **given}.items():
        conf.set(key, value)
    if SparkContext._active_spark_context is None:
        with fetching_alone(conf):
            _start(conf, config)
    return SparkSession.builder.getOrCreate()


def _start(conf: SparkConf, config: SessionConfig) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    if python := conf.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = python  # Spark itself heeds it from its own scripts alone.
    if config.is_local:
        # Workers import this project, so they run on this interpreter and not on PATH's.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    output = _JvmOutput()
    try:
        streams = {"stdout": output.write_end, "stderr": output.write_end}
        # A JVM without a context is left by a start that failed; it serves the next one.
        gateway = SparkContext._gateway or launch_gateway(conf, popen_kwargs=streams)
        output.close_write_end()
        SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError) as error:
        output.close_write_end()
        raise _start_failure(conf, error, output.lines()) from error
    output.pass_on()


@contextlib.contextmanager
def fetching_alone(conf: SparkConf) -> Iterator[None]:
    """Let one process at a time start a Spark that may fetch jars.

    Ivy's folder is no place for two: of processes that fill it at once none finds all jars.
    """
    if not conf.contains(_PACKAGES):
        yield
        return
    with contextlib.ExitStack() as held:
        try:
            folder = Path(conf.get(_IVY) or Path.home() / _IVY_FOLDER)
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / "cdc-assets.lock", timeout=_FETCH_SECONDS_MAX))
        except Timeout as error:
            raise CdcError(
                f"Spark did not start: for {_FETCH_SECONDS_MAX:g} s another process has been"
                " starting it, which may fetch its jars",
                where=error.lock_file,
                hint="Look whether that process hangs; its end frees the file.",
            ) from error
        except (OSError, RuntimeError):
            pass  # No home, or none that can be written: Ivy says so itself.
        yield


def _start_failure(conf: SparkConf, error: Exception, lines: list[str]) -> CdcError:
    if any("unresolved dependency" in line.lower() for line in lines):
        return ExtraMissingError(
            f"Spark could not fetch Delta's jar ({conf.get(_PACKAGES)})",
            hint="Is Maven Central reachable? Else set spark.conf: spark.jars.ivySettings for a"
            " mirror, or spark.jars to jars that are already here.",
        )
    # The JVM's own words where it ended before it could be asked, else the exception's.
    said = [_REASON.search(line) for line in (*lines, *str(error).splitlines())]
    reason = next((found.group(1) for found in said if found), str(error))
    return CdcError(
        f"Spark did not start: {reason.strip().rstrip('.')}",
        hint="Its settings stand under `spark` in tables.yaml.",
    )


class _JvmOutput:
    """What the JVM says: kept while Spark starts, where it is noise unless it fails; then ours."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._kept: deque[str] = deque(maxlen=_STARTUP_LINES_MAX)
        self._pass_on = False
        self._thread = threading.Thread(target=self._follow, name="spark-output", daemon=True)
        self._thread.start()

    def close_write_end(self) -> None:
        """Leave the pipe to the JVM alone, so that it ends with it."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def pass_on(self) -> None:
        self._pass_on = True

    def lines(self) -> list[str]:
        """What the JVM said so far; all of it where it has ended."""
        self._thread.join(timeout=_LAST_WORDS_SECONDS)
        return list(self._kept)

    def _follow(self) -> None:
        with os.fdopen(self._read_end, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if self._pass_on:
                    sys.stderr.write(line)
                else:
                    self._kept.append(line)
