"""What tests of the whole path stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdc_assets.ingest import advance as advance_module


@pytest.fixture
def after_the_poll(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Stage something between a sync's poll and its work, once."""
    work = advance_module._work

    def stage(happening: Callable[[], object]) -> None:
        def staged(*arguments: Any) -> Any:
            monkeypatch.setattr(advance_module, "_work", work)
            happening()
            return work(*arguments)

        monkeypatch.setattr(advance_module, "_work", staged)

    return stage
