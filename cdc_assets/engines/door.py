"""The door: the few calls behind which the heavy work happens, and who answers them.

`arrow` reads with arrow-odbc and writes with delta-rs in the run's own process; `spark` reads in
tasks and writes with Delta's Spark library. The tables they write are the same, and a table may
change engine between any two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from deltalake import DeltaTable

from cdc_assets.planning.plans import (
    AppendPlan,
    AppendResult,
    ApplyPlan,
    ApplyResult,
    MaintainPlan,
    MaintainResult,
    at_once,
)


class Engine(Protocol):
    """Carries plans out. Implementations hold clients and nothing that a crash could lose."""

    name: str

    def append(self, plan: AppendPlan, ready: Callable[[], None] = at_once) -> AppendResult:
        """Read the plan's ranges and append them to bronze as one commit.

        `ready` is called between the two, once or more: it returns when the commit may be made,
        and what it raises ends the append. Where a library reads and commits in one, it is called
        before. It may only wait: one of delta-rs's own workers may call it.

        Reads nothing where `plan.tag` is committed already. Raises `DataLossError` when a guard
        finds its range purged after the read, or when a range gave another number of rows than
        was counted; then nothing is committed.
        """
        ...

    def apply(self, plan: ApplyPlan, bronze: DeltaTable | None = None) -> ApplyResult:
        """Rank bronze at the plan's version and MERGE the latest images into silver.

        `bronze` is that version where the caller has it open, which an engine may read instead of
        opening it. Silver is always opened: what is merged into is what stands there now.

        Commits `plan.tag` also where the MERGE changes nothing. Never retried with an old source:
        a lost conflict gives `overtaken`.
        """
        ...

    def select(self, uri: str, version: int, sql: str) -> list[dict[str, Any]]:
        """The rows of a SELECT over a table at one version, which it calls `bronze`; few."""
        ...

    def maintain(self, plan: MaintainPlan) -> MaintainResult:
        """Write a table's files anew, remove old ones, or both.

        Beside syncs and applies: an append is not disturbed, and of a MERGE and a rewrite of the
        same files the later one loses. Raises `CommitConflictError` where that is the rewrite, each
        time; nothing is half-done then.
        """
        ...
