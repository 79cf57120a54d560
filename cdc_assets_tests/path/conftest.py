"""What tests of the whole path stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_assets.ingest import advance as advance_module
from cdc_assets_tests.path.helpers import once
from cdc_assets_tests.source import Server


@pytest.fixture(scope="session")
def server(server: Server) -> Server:
    """The server of all tests, read without TLS: a tenth of the time of this room."""
    return server.without_tls()


@pytest.fixture
def after_the_poll(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Stage something between a sync's poll and its work, once."""

    def stage(happening: Callable[[], object]) -> None:
        once(monkeypatch, advance_module, "_work", happening)

    return stage
