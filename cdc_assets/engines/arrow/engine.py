"""The engine behind the door; see `engines.door.Engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltalake import DeltaTable

from cdc_assets.engines.arrow.appending import write
from cdc_assets.engines.arrow.applying import apply
from cdc_assets.engines.arrow.reading import Reading
from cdc_assets.lake.failures import lake_failures
from cdc_assets.lake.files import Place
from cdc_assets.lake.tables import (
    APPEND_ATTEMPTS_MAX,
    StorageOptions,
    query,
    retry_conflicts,
    table_to_append,
)
from cdc_assets.lake.upkeep import maintain
from cdc_assets.planning.plans import (
    AppendPlan,
    AppendResult,
    ApplyPlan,
    ApplyResult,
    MaintainPlan,
    MaintainResult,
    at_once,
)
from cdc_assets.sqlserver.connection import LARGE_VALUE_BYTES_START, Connections
from cdc_assets.sqlserver.read import with_large_values


class ArrowEngine:
    """See `engines.door.Engine`."""

    name = "arrow"

    def __init__(self, connections: Connections, options: StorageOptions) -> None:
        self._connections = connections
        self._options = dict(options)

    def append(self, plan: AppendPlan, ready: Callable[[], None] = at_once) -> AppendResult:
        """Read the plan's ranges, several at a time, and stream them into one commit."""
        with lake_failures(plan.uri):
            return retry_conflicts(
                lambda: self._append_once(plan, ready),
                where=plan.table,
                attempts_max=APPEND_ATTEMPTS_MAX,
            )

    def _append_once(self, plan: AppendPlan, ready: Callable[[], None]) -> AppendResult:
        table = table_to_append(plan, self._options)
        if table is None:
            return AppendResult(committed=False)

        def attempt(large_value_bytes: int) -> AppendResult:
            reading = Reading(self._connections, plan, large_value_bytes, ready)
            has_large = large_value_bytes > LARGE_VALUE_BYTES_START
            place = Place(table.table_uri, self._options) if has_large else None
            return write(table, plan, reading, place)

        return with_large_values(attempt, plan, self._connections.lend)

    def apply(self, plan: ApplyPlan, bronze: DeltaTable | None = None) -> ApplyResult:
        """Rank with DataFusion, MERGE with delta-rs."""
        with lake_failures(plan.silver_uri):
            return apply(plan, self._options, bronze)

    def select(self, uri: str, version: int, sql: str) -> list[dict[str, Any]]:
        """By DataFusion."""
        with lake_failures(uri):
            table = DeltaTable(uri, version=version, storage_options=self._options)
        rows: list[dict[str, Any]] = query(sql, bronze=table).to_pylist()
        return rows

    def maintain(self, plan: MaintainPlan) -> MaintainResult:
        """Upkeep by delta-rs."""
        return maintain(plan, self._options)
