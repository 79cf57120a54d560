"""The source's password is in its own file and nowhere else (B188): a search for a canary."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets_tests.orchestration.helpers import Deployment
from cdc_assets_tests.path.helpers import change_items, create_items
from cdc_assets_tests.source import Project

pytestmark = pytest.mark.sqlserver

TABLE = "dbo_items"
CANARY = "C4nary;}x{'y=\"z"
STALE = "St4le;}canary"
SECRET_FILE = "canary.odbc"


@pytest.fixture
def engine_name() -> str:
    """Spark has tests of its own for what only it could show."""
    return "arrow"


def forms(secret: str) -> list[bytes]:
    """How a password may stand in a file."""
    plain = secret.encode()
    escaped = secret.replace("}", "}}").encode()
    return [
        plain,
        escaped,
        secret.encode("utf-16-le"),
        base64.b64encode(plain),
        urllib.parse.quote(secret, safe="").encode(),
        urllib.parse.quote_plus(secret).encode(),
        secret.encode("unicode_escape"),
    ]


def found_in(folder: Path) -> list[str]:
    """The files that show a password, other than the one it is kept in."""
    needles = [form for secret in (CANARY, STALE) for form in forms(secret)]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != SECRET_FILE
        if any(needle in path.read_bytes() for needle in needles)
    ]


class Guarded:
    """A deployment whose login has the canary for a password."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.project = deployment.project
        self.folder = self.project.folder
        source = self.project.source
        self.login = f"canary_{source.name}"
        literal = CANARY.replace("'", "''")
        source.execute(
            f"CREATE LOGIN [{self.login}] WITH PASSWORD = N'{literal}', CHECK_POLICY = OFF",
            f"CREATE USER [{self.login}] FOR LOGIN [{self.login}]",
            f"GRANT SELECT ON dbo.items TO [{self.login}]",
            f"GRANT SELECT ON cdc.dbo_items_CT TO [{self.login}]",
        )
        self.project.extra = {
            "connection": f"file:{SECRET_FILE}",
            "storage_options": {"AWS_SECRET_ACCESS_KEY": "${CDC_LAKE_SECRET}"},
        }
        self.use(CANARY)

    def use(self, password: str) -> None:
        source = self.project.source
        escaped = password.replace("}", "}}")
        pairs = source.server.text(source.name).split(";")
        kept = [p for p in pairs if p.split("=")[0].lower() not in ("uid", "pwd")]
        text = ";".join([*kept, f"uid={self.login}", f"pwd={{{escaped}}}"])
        (self.folder / SECRET_FILE).write_text(text)

    def command(self, *words: str) -> int:
        """The command line, what it says kept in the folder."""
        text = (self.folder / SECRET_FILE).read_text()
        environment = {**os.environ, "CDC_TABLES": str(self.project.write()), "CDC_CONN": text}
        done = subprocess.run(
            [sys.executable, "-c", "from cdc_assets.cli import main; main()", *words],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            check=False,
            timeout=120,
        )
        (self.folder / f"said.{len(list(self.folder.glob('said.*')))}").write_bytes(
            done.stdout + done.stderr
        )
        return done.returncode


@pytest.fixture
def guarded(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    # The store of the lake has the same secret: a local one takes it and needs none.
    monkeypatch.setenv("CDC_LAKE_SECRET", CANARY)
    create_items(project.source)
    project.tables = {TABLE: None}
    home = project.folder / "dagster"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        yield Guarded(Deployment(project, instance))


def test_a_password_is_shown_nowhere(guarded: Guarded, capfd: pytest.CaptureFixture[str]) -> None:
    project, deployment = guarded.project, guarded.deployment
    assert deployment.run().success
    change_items(project.source)
    assert deployment.run().success
    guarded.use(STALE)
    assert not deployment.run().success
    assert guarded.command("sync", "sales") == 1
    project.extra["connection"] = "${CDC_CONN}"
    assert guarded.command("sync", "sales") == 1
    guarded.use(CANARY)
    assert guarded.command("sync", "sales") == 0
    project.source.execute(f"REVOKE SELECT ON dbo.items FROM [{guarded.login}]")
    assert guarded.command("sync", "sales") == 1
    out, err = capfd.readouterr()
    (guarded.folder / "captured").write_text(out + err)
    said = "".join(path.read_text() for path in guarded.folder.glob("said.*"))
    assert "Login failed" in said
    assert "GRANT SELECT" in said
    assert "Login failed" in (guarded.folder / "captured").read_text()
    assert found_in(guarded.folder) == []


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    for number, form in enumerate(forms(CANARY)):
        (tmp_path / str(number)).write_bytes(b"x" + form + b"y")
    (tmp_path / SECRET_FILE).write_text(CANARY)
    assert len(found_in(tmp_path)) == len(forms(CANARY))
