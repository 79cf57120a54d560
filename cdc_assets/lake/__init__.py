"""The Delta tables, through delta-rs: opening, facts, control, and what bronze's log says."""

import os

from cdc_assets.settings.model import PARALLEL_TABLES_MAX

# delta-rs has as many worker threads as the machine has cores, and a stream of ours that waits for
# the source keeps one of them: as many streams as cores, and nothing in the process opens or
# commits a table any more. Read by delta-rs at its first call; decision 0016.
WORKERS = "TOKIO_WORKER_THREADS"
os.environ.setdefault(WORKERS, str(PARALLEL_TABLES_MAX + (os.cpu_count() or 1)))

STREAMS_MAY_WAIT = os.environ[WORKERS].isdigit() and int(os.environ[WORKERS]) > PARALLEL_TABLES_MAX
"""Whether a stream of ours may wait for another call of delta-rs: there are workers enough."""
