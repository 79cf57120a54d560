"""The Spark session: one JVM per process, started late, never stopped by us.

Every piece of work gets a session of its own below it, since Delta takes a MERGE's transaction
from session settings and tables are worked on in parallel threads.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections import deque
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from cdc_assets.engines.spark.installed import delta_package, java_home
from cdc_assets.engines.spark.storage import REDACTED, connector, hadoop_conf
from cdc_assets.errors import CdcError, ExtraMissingError
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.settings.model import SparkSettings

_LOOPBACK = "127.0.0.1"
_STARTUP_LINES_MAX = 400
_LAST_WORDS_SECONDS = 2.0
_REASON = re.compile(r"(?:Exception|Error): (.+)")
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_BYTES_PER_PARTITION = 64 << 20
_HADOOP = "spark.hadoop."
_WAVES_MAX = 32
"""Tasks per core at most: a table's bytes say little of how much of it a plan reads."""

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
_SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # By default in nanoseconds since 1970, which hold no date before 1677 or after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # One calendar for all times, in our files and in delta-rs's.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # 50 by default; the state of a small table is read in as many tasks.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Rows are taken from the commit that was made.
    "spark.databricks.delta.history.metricsEnabled": "true",
}
_LOCAL_CONF = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.memory": "2g",
}

_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What a session is started with; settings of the user's win over the engine's."""

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Hadoop's settings for the lake."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of what the lake needs beside Delta."""

    @classmethod
    def of(
        cls, settings: SparkSettings, lake: str = "", options: StorageOptions | None = None
    ) -> SessionConfig:
        """The configuration that a database's settings ask for."""
        storage = hadoop_conf(lake, options or {})
        needed = connector(lake)
        return cls(
            settings.master,
            tuple(sorted(settings.conf.items())),
            tuple(sorted(storage.items())),
            (needed,) if needed else (),
        )

    @property
    def is_local(self) -> bool:
        """Whether executors are threads of the driver's JVM."""
        return self.master.startswith("local")


def new_session(config: SessionConfig) -> SparkSession:
    """A session of its own, with its own settings, views and data sources, on the one JVM.

    Raises `JavaMissingError`, and `ExtraMissingError` where Delta's jar cannot be had.
    """
    with _starting:
        root = _root(config)
    session = root.newSession()
    # A context that somebody else started knows nothing of ours, so each session is told.
    for key, value in {**_SESSION_CONF, **dict(config.conf)}.items():
        if key in _SESSION_CONF or session.conf.isModifiable(key):
            session.conf.set(key, value)
    for key, value in config.storage:
        if f"{_HADOOP}{key}" not in dict(config.conf):
            session.conf.set(key, value)
    return session


def size_shuffle(session: SparkSession, config: SessionConfig, bytes_read: int) -> None:
    """Fit shuffle partitions to the work: with the default of 200 a small MERGE takes 16 s."""
    if _SHUFFLE_PARTITIONS in dict(config.conf):
        return
    cores = session.sparkContext.defaultParallelism
    partitions = min(max(cores, bytes_read // _BYTES_PER_PARTITION), cores * _WAVES_MAX)
    session.conf.set(_SHUFFLE_PARTITIONS, str(partitions))


@functools.cache
def _root(config: SessionConfig) -> SparkSession:
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(config.master)
    given = dict(config.conf)
    ours = {**_CONTEXT_CONF, **_SESSION_CONF, **(_LOCAL_CONF if config.is_local else {})}
    if not {"spark.jars.packages", "spark.jars"} & set(given):
        ours["spark.jars.packages"] = ",".join((delta_package(), *config.packages))
    for key, value in {**ours, **given}.items():
        conf.set(key, value)
    if SparkContext._active_spark_context is None:
        _start(conf, config)
    return SparkSession.builder.getOrCreate()


def _start(conf: SparkConf, config: SessionConfig) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
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


def _start_failure(conf: SparkConf, error: Exception, lines: list[str]) -> CdcError:
    if any("unresolved dependency" in line.lower() for line in lines):
        return ExtraMissingError(
            f"Spark could not fetch Delta's jar ({conf.get('spark.jars.packages')})",
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
