from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server, serving


@pytest.fixture(scope="session")
def empty_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped engine's state with an empty database `shop`, to be copied."""
    directory = tmp_path_factory.mktemp("template") / "state"
    with serving(directory):
        return directory


@pytest.fixture
def engine_server(empty_shop: Path, tmp_path: Path) -> Iterator[Server]:
    """An engine with an empty database `shop`."""
    shutil.copytree(empty_shop, tmp_path / "state")
    server = Server(tmp_path / "state")
    yield server
    server.close()


@pytest.fixture
def db(engine_server: Server) -> Client:
    """The administrator in `shop`."""
    return engine_server.client()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An administrator in a `shop` that a module's tests share and leave as it was."""
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server.client()
