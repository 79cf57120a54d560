"""What tests of the whole path stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cdc_assets.ingest import advance as advance_module
from cdc_assets_tests.path.helpers import once
from cdc_assets_tests.source import Server


@pytest.fixture(scope="session")
def server(server: Server) -> Server:
    """The server of all tests; the sandbox's is read without TLS.

    Each run of the product opens connections of its own here, and a handshake takes both ends tens
    of milliseconds. It has its own tests (`sqlserver/test_tls.py`), and other rooms have it.
    """
    if not server.is_sandbox:
        return server
    return replace(server, reader=server.reader.replace("Encrypt=yes", "Encrypt=no"))


@pytest.fixture
def after_the_poll(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Stage something between a sync's poll and its work, once."""

    def stage(happening: Callable[[], object]) -> None:
        once(monkeypatch, advance_module, "_work", happening)

    return stage
