"""A lake in an object store: the whole path on a real S3 protocol, and who may write there."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_assets.errors import LakeUnavailableError
from cdc_assets.ingest.sync import sync
from cdc_assets_tests.clients.stacks import CLIENTS, SETUP_SECONDS_MAX, build, build_folder
from cdc_assets_tests.path.helpers import COLUMNS, change_items, create_items, load
from cdc_assets_tests.source import Project, Source

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(SETUP_SECONDS_MAX),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go's toolchain is missing: no `go`"),
]
ACCESS_KEY = "AKIALOOPBACK"
SECRET = "canary/5b1c+secret"
TABLE = "dbo_items"


@dataclass(frozen=True)
class Store:
    """An S3 server of the tests."""

    address: str

    def settings(self, folder: str, access_key: str = ACCESS_KEY) -> dict[str, object]:
        """What a database's settings say of a lake there."""
        return {
            "lake": f"s3://lake/{folder}",
            "storage_options": {
                "AWS_ENDPOINT_URL": f"http://{self.address}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": access_key,
                "AWS_SECRET_ACCESS_KEY": SECRET,
            },
        }


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    program = build_folder("objects") / "objects"
    build(["go", "build", "-mod=readonly", "-o", str(program), "."], CLIENTS / "objects")
    with subprocess.Popen(
        [str(program)],
        env={**os.environ, "CLIENT_ACCESS_KEY": ACCESS_KEY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield Store(server.stdout.readline().strip())
        server.stdin.close()


@pytest.fixture
def project(source: Source, tmp_path: Path, store: Store) -> Project:
    create_items(source)
    found = Project(tmp_path, source, "arrow", {TABLE: None})
    found.extra = store.settings(source.name)
    return found


def test_snapshot_changes_and_silver(project: Project) -> None:
    load(project)
    change_items(project.source)
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)
    assert not (project.folder / "lake").exists()


def test_syncs_at_once_append_each_change_once(project: Project) -> None:
    """Log entries are created only where there is none, so one of two commits loses."""
    load(project)
    for base in (100, 300):
        change_items(project.source, base)
        databases = [project.database() for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            reports = list(pool.map(sync, databases))
        assert [o.error for report in reports for o in report.failed] == []
    load(project)
    project.assert_each_change_once(TABLE)
    project.assert_identical(TABLE, COLUMNS)


def test_wrong_credentials_are_told_without_them(project: Project, store: Store) -> None:
    project.extra = store.settings(project.source.name, access_key="AKIANOBODY")
    with pytest.raises(LakeUnavailableError) as failed:
        sync(project.database())
    assert SECRET not in str(failed.value)
