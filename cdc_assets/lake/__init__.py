"""The Delta tables, through delta-rs: opening, facts, control, and what bronze's log says."""

import os

from cdc_assets.settings.model import PARALLEL_TABLES_MAX

# delta-rs has as many worker threads as the machine has cores, and a stream of ours that waits for
# the source keeps one of them: as many streams as cores, and nothing in the process opens or
# commits a table any more. Read by delta-rs at its first call; decision 0016.
os.environ.setdefault("TOKIO_WORKER_THREADS", str(PARALLEL_TABLES_MAX + (os.cpu_count() or 1)))
