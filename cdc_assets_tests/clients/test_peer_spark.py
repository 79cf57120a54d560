"""The peer's snapshot, stream and silver, and ours, for the same workload on the same source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.clients.history import COLUMNS, FIRST, History
from cdc_assets_tests.clients.peer_spark import Peer
from cdc_assets_tests.path.helpers import load
from cdc_assets_tests.source import Project, Source

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.sqlserver]
PLACE = ("_start_lsn", "_command_id", "_seqval", "_operation")


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
