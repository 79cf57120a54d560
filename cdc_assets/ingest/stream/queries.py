"""A running stream, as Spark's query and with our errors."""

from __future__ import annotations

from typing import Any

from cdc_assets.engines.spark.failures import typed_error
from cdc_assets.planning.generations import Generation


class CdcQuery:
    """Spark's `StreamingQuery` (all of it is there by its names), whose errors keep their types."""

    def __init__(self, query: Any, generation: Generation) -> None:
        self.query = query
        self.generation = generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's
        """Wait for its end, at most `timeout` seconds; says whether it came, where one is given.

        Raises what ended it: an error of ours as it was raised, else Spark's.
        """
        try:
            return self.query.awaitTermination(timeout)  # type: ignore[no-any-return]
        except Exception as failure:
            if (ours := typed_error(failure)) is not None:
                raise ours from None
            raise

    def exception(self) -> BaseException | None:
        """What ended it, or None."""
        failure = self.query.exception()
        return failure if failure is None else typed_error(failure) or failure
