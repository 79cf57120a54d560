from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets_tests.sandbox.harness import Client, Server, serving
from cdc_assets_tests.sandbox.remote import remote_database
from cdc_assets_tests.source import CONNECTION_VARIABLE


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
def db(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The administrator in an empty database: on a real server where one is named, else `shop`."""
    if text := os.environ.get(CONNECTION_VARIABLE):
        with remote_database(text) as client:
            yield client
    else:
        yield request.getfixturevalue("engine_server").client()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The same, for a module's tests, which leave it as it was."""
    if text := os.environ.get(CONNECTION_VARIABLE):
        with remote_database(text) as client:
            yield client
        return
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server.client()
