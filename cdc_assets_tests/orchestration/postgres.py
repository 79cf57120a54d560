"""A Postgres of the tests' own, on loopback, and Dagster instances that keep everything in it.

Debian's server, as the user that its package made: it refuses to run as root.
"""

from __future__ import annotations

import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg2
import pytest
from dagster_postgres import PostgresEventLogStorage

from cdc_assets.cli.home import free_port
from cdc_assets_tests.serving import ROOT, until

OWNER = "postgres"
USER = "dagster"
PROGRAMS = Path("/usr/lib/postgresql")
"""Debian has a folder for each major version there, and puts none of it on the PATH."""
UNSAFE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB")
"""What a power cut would lose is a test's."""
_BLOCK = "# storage:\n"


@dataclass
class Postgres:
    """A running server."""

    port: int
    password: str
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def execute(self, text: str) -> None:
        """Run a statement as the superuser."""
        with closing(self.connect()) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(text)

    def connect(self) -> Any:
        """A connection; `psycopg2.OperationalError` while it starts."""
        return psycopg2.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=self.password,
            dbname="postgres",
        )

    def environment(self) -> dict[str, str]:
        """The variables of `dagster.yaml`'s block, with an empty database."""
        name = f"dagster{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return {
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(self.port),
            "DAGSTER_PG_USER": USER,
            "DAGSTER_PG_PASSWORD": self.password,
            "DAGSTER_PG_DB": name,
        }


def with_postgres(dagster_yaml: str) -> str:
    """The text of our `dagster.yaml` with the block for Postgres taken in."""
    before, block, after = dagster_yaml.partition(_BLOCK)
    assert block, "dagster.yaml has no commented block of storage"
    lines = (block + after).splitlines(keepends=True)
    return before + "".join(line.removeprefix("# ") for line in lines)


@contextmanager
def postgres_instance(home: Path, postgres: Postgres) -> Iterator[dg.DagsterInstance]:
    """An instance of our `dagster.yaml` in a folder, with its storage in a database of its own."""
    text = (ROOT / "dagster.yaml").read_text()
    (home / "dagster.yaml").write_text(with_postgres(text))
    with pytest.MonkeyPatch.context() as variables:
        for name, value in postgres.environment().items():
            variables.setenv(name, value)
        with dg.DagsterInstance.from_config(str(home)) as made:
            assert isinstance(made.event_log_storage, PostgresEventLogStorage)
            yield made


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Make a cluster in a folder of its own, and run it; skips where Postgres is not installed."""
    programs = _programs()
    owner = _owner()
    postgres = Postgres(free_port(), secrets.token_hex(16))
    # pytest's folders are root's alone: the server's user could not reach into them.
    folder = Path(tempfile.mkdtemp(prefix="cdc-postgres-"))
    try:
        _make(programs, folder, postgres, owner)
        with _serving(programs, folder, postgres, owner):
            yield postgres
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    """The folder of the newest server's programs."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    found_all = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found_all:
        pytest.skip("no Postgres here: apt-get install postgresql")
    return found_all[-1].parent


def _owner() -> dict[str, Any]:
    """Whom the server's processes belong to, as `subprocess` takes it."""
    if os.geteuid() != 0:
        return {}
    try:
        found = pwd.getpwnam(OWNER)
    except KeyError:
        pytest.skip(f"Postgres refuses root, and there is no user {OWNER} here")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _make(programs: Path, folder: Path, postgres: Postgres, owner: dict[str, Any]) -> None:
    password = folder / "password"
    password.write_text(postgres.password)
    if owner:
        for path in (folder, password):
            os.chown(path, owner["user"], owner["group"])
    made = subprocess.run(
        [
            *(str(programs / "initdb"), "--pgdata", str(folder / "data"), "--username", USER),
            *("--pwfile", str(password), "--auth", "scram-sha-256", "--encoding", "UTF8"),
            *("--locale", "C", "--no-sync", "--no-instructions"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **owner,
    )
    assert made.returncode == 0, made.stderr


@contextmanager
def _serving(
    programs: Path, folder: Path, postgres: Postgres, owner: dict[str, Any]
) -> Iterator[None]:
    settings = [*UNSAFE, "listen_addresses=127.0.0.1", "unix_socket_directories="]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                *(str(programs / "postgres"), "-D", str(folder / "data")),
                *("-p", str(postgres.port), *(w for s in settings for w in ("-c", s))),
            ],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            **owner,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            postgres.connect().close()
        except psycopg2.OperationalError:
            return False
        return True

    try:
        until(answers, "a Postgres that answers")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # its fast shutdown: open sessions are ended
        process.wait(60)
