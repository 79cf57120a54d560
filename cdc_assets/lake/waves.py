"""What bronze and its log say of a chunked snapshot's waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltalake import DeltaTable

from cdc_assets.lake.features import unreadable
from cdc_assets.lake.tables import query
from cdc_assets.lsn import Lsn
from cdc_assets.planning.literals import lsn_literal
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.waves import WaveCommit

_HISTORY_STEP = 20


def committed_wave(table: DeltaTable, wanted: WaveCommit, first: int) -> WaveCommit | None:
    """The wave that bronze has under an app id and a number, as its commit says it.

    Log cleanup may have dropped that commit: then its rows say it, as those of chunks from `first`
    on. Chunks of it without rows after the last one with rows are not known any more, and are
    None's; nor is which engine read it. None where it has no row at all.
    """
    limit = _HISTORY_STEP
    while True:
        history = table.history(limit)
        for entry in history:
            commit = WaveCommit.from_json(entry.get("userMetadata"))
            if commit is not None and (commit.app_id, commit.wave) == (wanted.app_id, wanted.wave):
                return commit
        if len(history) < limit:
            return _of_rows(table, wanted, first)
        limit *= 4


def _of_rows(table: DeltaTable, wanted: WaveCommit, first: int) -> WaveCommit | None:
    row = query(
        "SELECT max(`_chunk`) AS newest, min(`_start_lsn`) AS lsn, min(`_commit_ts`) AS ts"
        f" FROM bronze WHERE `_operation` = 0 AND `_snapshot` = {lsn_literal(wanted.snapshot)}"
        f" AND `_chunk` >= {first:d}",
        bronze=table,
    ).to_pylist()[0]
    if row["newest"] is None:
        return None
    chunks = tuple(range(first, row["newest"] + 1))
    stamp = Offset(Lsn.parse(row["lsn"]), row["ts"])
    return replace(wanted, stamp=stamp, chunks=chunks, engine="")


def rows_by_chunk(
    table: DeltaTable, snapshot: Lsn, stamp: Lsn, chunks: Sequence[int]
) -> dict[int, int] | None:
    """How many rows bronze has of a wave's chunks; None where only Spark can read its rows."""
    if unreadable(table):
        return None
    if not chunks:
        return {}
    found = query(
        "SELECT `_chunk` AS chunk, count(*) AS n FROM bronze"
        f" WHERE `_operation` = 0 AND `_start_lsn` = {lsn_literal(stamp)}"
        f" AND `_snapshot` = {lsn_literal(snapshot)}"
        f" AND `_chunk` BETWEEN {min(chunks):d} AND {max(chunks):d} GROUP BY `_chunk`",
        bronze=table,
    )
    return {row["chunk"]: row["n"] for row in found.to_pylist()}
