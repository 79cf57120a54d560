from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.sandbox.server import TdsServer
from cdc_assets_tests.sandbox.wire.canned import CannedBackend


@pytest.fixture(scope="session")
def wire_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wire")


@pytest.fixture
def backend() -> CannedBackend:
    return CannedBackend()


@pytest.fixture
def server(
    backend: CannedBackend, wire_state: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TdsServer]:
    with TdsServer(backend, state_dir=wire_state) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(running.ca_file))
        yield running
