"""What all random histories run with."""

import pytest

from cdc_assets.ingest import tidying

SMALL_FILES_MAX = 5
"""Batches after which a table is tidied here: a history has some twenty, a week ten thousand."""


@pytest.fixture(autouse=True)
def _often_tidied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidying, "SMALL_FILES_MAX", SMALL_FILES_MAX)
