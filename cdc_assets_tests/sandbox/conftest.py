from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server, serving


@pytest.fixture
def engine_server(tmp_path: Path) -> Iterator[Server]:
    """An engine with an empty database `shop`."""
    with serving(tmp_path / "state") as server:
        yield server


@pytest.fixture
def db(engine_server: Server) -> Client:
    """The administrator in `shop`."""
    return engine_server.client()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An administrator in a `shop` that a module's tests share and leave as it was."""
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server.client()
