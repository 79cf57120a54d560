"""The peer's snapshot, stream and silver, and ours, for the same workload on the same source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.clients.history import COLUMNS, FIRST, History
from cdc_assets_tests.clients.peer import connection_text, mssql_cdc
from cdc_assets_tests.path.helpers import load
from cdc_assets_tests.source import SPARK, Project, Source

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.sqlserver]
PLACE = ("_start_lsn", "_command_id", "_seqval", "_operation")


class Peer:
    """Its calls as its README has them, with tables as paths."""

    def __init__(self, source: Source, folder: Path) -> None:
        # Late: the fast tests must run where no PySpark is installed.
        from cdc_assets.engines.spark.session import SessionConfig, new_session  # noqa: PLC0415
        from cdc_assets.settings.model import SparkSettings  # noqa: PLC0415

        self._session = new_session(SessionConfig.of(SparkSettings(**SPARK)))
        self._session.conf.set("spark.sql.shuffle.partitions", "2")
        self._folder = folder
        # Spark's workers were started before this server had a certificate to trust.
        text = f"{connection_text(source, 'mssql-python')};TrustServerCertificate=yes"
        self._options = {"connectionString": text, "captureInstance": FIRST}

    def snapshot(self) -> None:
        """The table as it is, into its bronze."""
        self._stream().snapshot(self._path("bronze"))

    def work_off(self) -> None:
        """Stream all changes since the snapshot, then apply both to silver.

        Without its tables of facts and verdicts, which say nothing of rows.
        """
        query = self._stream().to_delta(
            self._path("bronze"),
            app_id="stock",
            checkpoint=str(self._folder / "checkpoint"),
            trigger={"availableNow": True},
            bootstrap=True,
        )
        query.awaitTermination()
        mssql_cdc.apply_changes(
            self._session,
            self._path("bronze"),
            self._path("silver"),
            capture_instance=FIRST,
            keys=["id"],
            control_table=self._path("control"),
        )

    def _stream(self) -> Any:
        return mssql_cdc.stream(self._session, self._options)

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        found = self._session.read.format("delta").load(self._path(table)).select(*columns)
        return sorted((tuple(row) for row in found.collect()), key=repr)

    def _path(self, name: str) -> str:
        return str(self._folder / "lake" / name)


def test_the_peer_and_we_end_equal(source: Source, tmp_path: Path) -> None:
    history = History.create(source)
    project = Project(tmp_path, source, tables={FIRST: None})
    peer = Peer(source, tmp_path / "peer")
    history.commit(12)
    history.settle()
    peer.snapshot()
    load(project, FIRST)
    history.commit(20)
    history.settle()
    peer.work_off()
    load(project, FIRST)
    expected = sorted((tuple(row.values()) for row in history.rows.values()), key=repr)
    assert peer.rows("silver", COLUMNS) == expected
    assert project.silver(FIRST, COLUMNS) == expected
    columns = (*PLACE, *COLUMNS)
    ours = [tuple(row.values()) for row in project.bronze(FIRST, columns)]
    theirs = peer.rows("bronze", columns)
    changes = history.changes(history.lsns[12], history.lsns[-1])
    assert len([row for row in ours if row[3] != 0]) == len(changes)
    assert _changes(theirs) == _changes(ours)
    assert _snapshot(theirs) == _snapshot(ours)


def _changes(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((row for row in rows if row[3] != 0), key=repr)


def _snapshot(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The values alone: each writes the place of a snapshot's rows in its own way."""
    return sorted((row[len(PLACE) :] for row in rows if row[3] == 0), key=repr)
