"""A micro-batch into bronze: the sync's own append, up to where Spark says, with the stream's mark.

The offsets alone come from Spark. Where the table is stands in bronze and control, as for a sync,
so that a micro-batch that is repeated after a crash finds what of it is there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets import faults
from cdc_assets.engines.database import Database
from cdc_assets.engines.spark.checkpoints import Checkpoints
from cdc_assets.engines.spark.failures import typed_in_text
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.advance import follow_stream
from cdc_assets.ingest.known import Known
from cdc_assets.ingest.outcome import Shared, TableOutcome
from cdc_assets.ingest.quiet import told_lately
from cdc_assets.ingest.recording import Recorder
from cdc_assets.ingest.sync import known_tables, poll_tables
from cdc_assets.planning.generations import Generation, Writer
from cdc_assets.sqlserver.connection import with_retries


@dataclass(frozen=True)
class BronzeSink:
    """What `foreachBatch` calls; a generation's micro-batches come in order, one at a time.

    `owns_id` says that the table is in no settings: the transaction id is the generation's own.
    """

    database: Database
    key: str
    generation: Generation
    checkpoints: Checkpoints
    owns_id: bool

    def __call__(self, _: Any, micro_batch: int) -> None:
        """Append one micro-batch and record it; its errors keep their types across the JVM."""
        with typed_in_text():
            try:
                self.write(micro_batch)
            finally:
                self.database.connections.close()
        faults.reach(FaultPoint.STREAM_RECORDED)

    def write(self, micro_batch: int) -> None:
        """Append one micro-batch, facts and verdict after it.

        Raises `AnotherWriterError`, `DataLossError`, `SchemaChangedError`, and what a sync raises.
        """
        end = self.checkpoints.offset(self.generation.number, micro_batch)
        database = self.database
        newest_rows = functools.cache(database.lake.facts.newest_rows)
        (known,) = known_tables(database, [self.key], newest_rows)
        known = replace(
            at_start(known, self.generation),
            stream=Writer(self.generation, micro_batch, self.owns_id),
        )
        poll = with_retries(lambda: poll_tables(database, [known]))
        recorder = Recorder(database, poll, {known.name.bronze: known.snapshots})
        recorder.measure()
        recorder.record([follow_stream(database, known, poll, end, _shared(database, recorder))])


def at_start(known: Known, generation: Generation) -> Known:
    """The table at its generation's start, where neither control nor a snapshot says more."""
    if known.position is not None or known.error is not None:
        return known
    return replace(known, position=generation.start, recorded_end=generation.start)


def _shared(database: Database, recorder: Recorder) -> Shared:
    def tell(outcome: TableOutcome) -> None:
        recorder.record([outcome])

    return Shared(functools.cache(lambda: told_lately(database)), tell)
