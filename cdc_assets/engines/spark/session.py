"""Spark sessions: one for each piece of work, on this process's JVM or on a Spark Connect server.

Delta takes a MERGE's transaction from session settings, and tables are worked on in parallel
threads: so no two pieces of work share a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pyspark.sql import SparkSession

from cdc_assets.engines.spark.config import SESSION_CONF, SessionConfig
from cdc_assets.engines.spark.jvm import root_session

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_BYTES_PER_PARTITION = 64 << 20
_WAVES_MAX = 32
"""Tasks per core at most: a table's bytes say little of how much of it a plan reads."""


@contextmanager
def work_session(config: SessionConfig) -> Iterator[SparkSession]:
    """A session for one piece of work, given back at its end; see `new_session`."""
    session = new_session(config)
    try:
        yield session
    finally:
        if config.is_connect:
            _connect().release(session)


def new_session(config: SessionConfig) -> SparkSession:
    """A session of its own, with its own settings, views and data sources.

    One of a Spark Connect server holds a connection and keeps the process from ending: `release`
    it. Raises `JavaMissingError`, and `ExtraMissingError` where Delta's jar cannot be had; of a
    server see `engines.spark.connect.connect`.
    """
    if config.given is not None:
        return _derived(config)
    if config.is_connect:
        return _connect().connect(config)
    session = root_session(config).newSession()
    # A context that somebody else started knows nothing of ours, so each session is told.
    for key, value in {**SESSION_CONF, **dict(config.conf)}.items():
        if key in SESSION_CONF or session.conf.isModifiable(key):
            session.conf.set(key, value)
    for key, value in config.lake_conf().items():
        session.conf.set(key, value)
    return session


def _derived(config: SessionConfig) -> SparkSession:
    """One with the settings that the caller's has, among them what it may know of a store."""
    session: SparkSession
    if config.is_connect:
        session = config.given.cloneSession()
    else:
        session = config.given.newSession()
        for key, value in config.given.conf.getAll.items():
            if session.conf.isModifiable(key):
                session.conf.set(key, value)
    for key, value in {**SESSION_CONF, **config.lake_conf()}.items():
        session.conf.set(key, value)
    return session


def size_shuffle(session: SparkSession, config: SessionConfig, bytes_read: int) -> None:
    """Fit shuffle partitions to the work: with the default of 200 a small MERGE takes 16 s."""
    if _SHUFFLE_PARTITIONS in dict(config.conf):
        return
    if config.is_connect:
        cores = _connect().parallelism(session)
    else:
        cores = session.sparkContext.defaultParallelism
    partitions = min(max(cores, bytes_read // _BYTES_PER_PARTITION), cores * _WAVES_MAX)
    session.conf.set(_SHUFFLE_PARTITIONS, str(partitions))


def _connect() -> ModuleType:
    # Late: gRPC and pandas cost seconds that Spark in this process does not need.
    from cdc_assets.engines.spark import connect  # noqa: PLC0415

    return connect
