"""The plan of a chunked snapshot: made and told of by the first call, and the same ever after."""

from __future__ import annotations

import logging
from dataclasses import replace

from cdc_assets import faults
from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.chunking import extent_of, plan_chunks
from cdc_assets.ingest.looking import Look
from cdc_assets.ingest.sizing import size_chunks
from cdc_assets.lake.facts import FactsEntry
from cdc_assets.planning.chunks import ChunkPlan
from cdc_assets.planning.waves import plan_row

_log = logging.getLogger(__name__)


def planned(database: Database, look: Look) -> ChunkPlan | None:
    """The snapshot's plan; None where it was made only now, which may have taken long."""
    table, snapshot = look.table, look.opened.at.lsn
    plan = database.lake.plans.plan(table, snapshot, look.waves.plan_id)
    is_new = plan is None
    if plan is None:
        plan = database.lake.plans.store(table, _made(database, look))
        faults.reach(FaultPoint.PLAN_STORED)
    if look.waves.plan_id is None:
        _tell(database, look, plan)
    return None if is_new else plan


def _made(database: Database, look: Look) -> ChunkPlan:
    """All chunks, by what the source says now of the keys at the open."""
    table, snapshot, plans = look.table, look.opened.at.lsn, database.lake.plans
    with database.connections.lend() as connection:
        extent = plans.extent(table, snapshot)
        if extent is None:
            # The run that opened it died; a largest key of now leaves nothing out either.
            chosen = database.settings.tables[table.key].chunk_column
            extent = extent_of(connection, look.instance, look.columns, chosen)
            extent = plans.store_extent(table, snapshot, extent)
        sizing = size_chunks(database, table, connection, look.instance)
        return plan_chunks(connection, look.instance, look.columns, extent, snapshot, sizing)


def _tell(database: Database, look: Look, plan: ChunkPlan) -> None:
    table, at = look.table, look.opened.at
    row = replace(plan_row(table.bronze, at, plan), written_at=utc_now())
    database.lake.facts.append([FactsEntry((row,), table.plan_app(at.lsn))])
    faults.reach(FaultPoint.PLAN_TOLD)
    _log.info(
        "%s: %d chunks of its snapshot at %s are planned, of about %s rows: %s",
        table,
        len(plan.chunks),
        at.lsn,
        f"{plan.sizing.rows:,}" if plan.sizing else "?",
        plan.sizing.why if plan.sizing else "",
    )
