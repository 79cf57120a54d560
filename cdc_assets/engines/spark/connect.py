"""Sessions on a Spark Connect server: no JVM and no context here, and tasks somewhere else.

What reaches it travels as protocol buffers: SQL, settings, and what tasks run, pickled.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from cdc_assets.engines.spark.config import HADOOP, SESSION_CONF, SessionConfig
from cdc_assets.engines.spark.failures import connect_status, is_unreachable
from cdc_assets.engines.spark.installed import delta_package
from cdc_assets.engines.spark.storage import REDACTED
from cdc_assets.errors import (
    CdcError,
    ExtraMissingError,
    LoginRefusedError,
    SettingsError,
    SparkUnavailableError,
    first_line,
)
from cdc_assets.settings.masters import connect_place

logger = logging.getLogger(__name__)

CONTACT_RETRIES_MAX = 4
"""Tries after the first to reach a server that does not answer: 4 seconds."""
WORK_RETRIES_MAX = 8
"""The same while it works for us: 3 minutes, for a network that comes back."""
CORES_COUNTED_MAX = 4096
"""Cores of a server that are told apart."""

_DAEMON = "spark.python.use.daemon"
_EXTENSIONS = "spark.sql.extensions"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "spark.sql.catalog.spark_catalog"
_REDACTION = "spark.redaction.regex"
_REDACTED_BY_DEFAULT = "(?i)secret|password|token|access[.]?key"
_SETTING = re.compile(r'Spark config: "([^"]+)"')
_REFUSED = ("UNAUTHENTICATED", "PERMISSION_DENIED")

# What fails is raised; pyspark would write it again, to the standard error.
for _name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
    PySparkLogger.getLogger(_name).disabled = True
warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")


def connect(config: SessionConfig) -> SparkSession:
    """A new session with the engine's settings and the user's; `release` it.

    Raises `SparkUnavailableError`, `LoginRefusedError`, `SettingsError` for a setting that is the
    server's own, and `ExtraMissingError` for a server without Delta. No text shows what follows
    host and port.
    """
    place = connect_place(config.master)
    with _failures_told(place):
        session = SparkSession(config.master)
        try:
            session.client.set_retry_policies([DefaultPolicy(max_retries=CONTACT_RETRIES_MAX)])
            _check(session, config, place)
            for key, value in {**SESSION_CONF, **config.lake_conf(), **_given(config)}.items():
                session.conf.set(key, value)
            session.client.set_retry_policies([DefaultPolicy(max_retries=WORK_RETRIES_MAX)])
        except BaseException:
            release(session)
            raise
    return session


def release(session: SparkSession) -> None:
    """Give a session back: its views and settings on the server, its connection here.

    Not by its `stop`: a clone lacks what that looks at, and with a server in this process, which
    is the caller's, it would end that.
    """
    client = session.client
    client.set_retry_policies([])  # It is best effort, and the server may be gone.
    try:
        client.release_session()
    except Exception as error:  # noqa: BLE001 - said above
        logger.debug("a Spark Connect session could not be released: %s", error)
    client.close()


def parallelism(session: SparkSession) -> int:
    """Tasks that run at the same time; only a plan without a fixed number of tasks tells."""
    session.conf.set("spark.sql.shuffle.partitions", "1")
    found = session.sql(
        "SELECT count(DISTINCT p) AS tasks"
        f" FROM (SELECT spark_partition_id() AS p FROM range({CORES_COUNTED_MAX}))"
    ).first()
    return int(found["tasks"])


def _given(config: SessionConfig) -> dict[str, str]:
    """The user's settings; what a context would take for Hadoop, a session takes by its name."""
    return {key.removeprefix(HADOOP): value for key, value in config.conf}


def _check(session: SparkSession, config: SessionConfig, place: str) -> None:
    if _EXTENSION not in (session.conf.get(_EXTENSIONS, "") or ""):
        raise ExtraMissingError(
            f"the Spark Connect server at {place} has no Delta",
            hint=f"Start it with --packages {delta_package()} --conf {_EXTENSIONS}={_EXTENSION}"
            f" --conf {_CATALOG}=org.apache.spark.sql.delta.catalog.DeltaCatalog.",
        )
    warn_of_daemons(place, session.conf.get(_DAEMON, "true") or "true")
    hidden = session.conf.get(_REDACTION, _REDACTED_BY_DEFAULT) or ""
    shown = [key for key in config.lake_conf() if _is_secret(key) and not re.search(hidden, key)]
    if shown:
        raise SettingsError(
            f"the Spark Connect server at {place} would show {shown[0]} on its pages",
            hint=f"Start it with --conf '{_REDACTION}={REDACTED}'.",
        )


@functools.cache
def warn_of_daemons(place: str, used: str) -> None:
    """Once for each server: Spark 4.2 gives a session Python daemons, and never ends them."""
    if used != "false":
        logger.warning(
            "the Spark Connect server at %s keeps three Python processes for each append."
            " Start it with --conf %s=false.",
            place,
            _DAEMON,
        )


def _is_secret(key: str) -> bool:
    return re.search(REDACTED, key) is not None


@contextmanager
def _failures_told(place: str) -> Iterator[None]:
    """Say what a server refused a session for, and not with what."""
    try:
        yield
    except PySparkException as failure:
        raise _told(failure, place) from None


def _told(failure: PySparkException, place: str) -> CdcError:
    text = str(failure)
    if is_unreachable(failure):
        return SparkUnavailableError(
            f"the Spark Connect server at {place} does not answer",
            hint="Is it up, and is `spark.master` its address?",
        )
    if connect_status(failure) in _REFUSED:
        return LoginRefusedError(
            f"the Spark Connect server at {place} refused the login",
            hint="Its token follows the address, sc://host:port/;token=…, or stands in the"
            " environment variable SPARK_CONNECT_AUTHENTICATE_TOKEN.",
        )
    if fixed := _SETTING.search(text):
        return SettingsError(
            f"the Spark Connect server at {place} lets no session set {fixed.group(1)}",
            hint="Set it where the server is started, and not under `spark.conf`.",
        )
    return CdcError(
        f"the Spark Connect server at {place} gave no session: {first_line(text)}",
        hint="Its settings stand under `spark` in tables.yaml.",
    )
