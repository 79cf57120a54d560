"""MERGE, as the updates, deletes and inserts it means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language import statements as s

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.statements import StatementRunner


def merge(runner: StatementRunner, work: Work, statement: s.Merge) -> int:
    """Run a MERGE; how many rows it changed."""
    del runner, work
    raise errors.unsupported(f"MERGE into {statement.target[-1]}")
