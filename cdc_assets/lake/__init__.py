"""The Delta tables, through delta-rs: opening, facts, control, and what bronze's log says."""

import ctypes
import os
from contextlib import suppress

from cdc_assets.settings.model import PARALLEL_TABLES_MAX

# delta-rs has as many worker threads as the machine has cores, and a stream of ours that waits for
# the source keeps one of them: as many streams as cores, and nothing in the process opens or
# commits a table any more. Read by delta-rs at its first call; decision 0016.
WORKERS = "TOKIO_WORKER_THREADS"
os.environ.setdefault(WORKERS, str(PARALLEL_TABLES_MAX + (os.cpu_count() or 1)))

STREAMS_MAY_WAIT = os.environ[WORKERS].isdigit() and int(os.environ[WORKERS]) > PARALLEL_TABLES_MAX
"""Whether a stream of ours may wait for another call of delta-rs: there are workers enough."""

ARENAS_MAX = 2
"""Places that glibc allocates from; by default eight for each core."""
_M_ARENA_MAX = -8  # in <malloc.h>


def _bound_arenas() -> None:
    """Let threads share what they allocate from.

    Each batch has threads of its own, and what one of them has freed stays in its arena: a backfill
    of many waves would take ever more memory, though it holds no more. Another C library has no
    arenas, and the environment's own limit counts.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS_MAX)


_bound_arenas()
