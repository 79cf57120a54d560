"""Progress of queries whose sink is not ours, as it is told to us."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from cdc_assets.planning.offsets import Offset

Told = Callable[[Offset], None]


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Tells the end offset of each micro-batch of one run of a query.

    Spark posts a progress after the batch's own commit, so what it tells has been written.
    """

    def __init__(self, run_id: str, told: Told) -> None:
        self._run_id = run_id
        self._told = told

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing has been written yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A micro-batch is done."""
        progress = event.progress
        if str(progress.runId) == self._run_id and progress.sources:
            tell(progress.sources[0].endOffset, self._told)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing new was written."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """The last micro-batch was told before."""


def tell(end_offset: Any, told: Told) -> None:
    """Tell an offset as Spark's progress has it: text, or the object in it; None is none."""
    found = json.loads(end_offset) if isinstance(end_offset, str) else end_offset
    if found:
        told(Offset.from_dict(found))
