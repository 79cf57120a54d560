"""Programs in other languages: where they run, what they are told, what they saw.

A program reads its orders from the environment (`Place.environment`) and the statements from
expected.json, runs every check, and writes one JSON line each: {"check": ..., "ok": ..., "got":
...}. `got` is what it saw, in canonical text; comparing is done here alone, by `expectation`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.sqlserver.connection_string import odbc_pairs
from cdc_assets_tests.source import Server, Source

CLIENTS = Path(__file__).parent
ROOT = CLIENTS.parents[1]
EXPECTED_FILE = CLIENTS / "expected.json"
EXPECTED: dict[str, Any] = json.loads(EXPECTED_FILE.read_text())
CHECKS: list[str] = EXPECTED["checks"]
STACK_CHECKS = CHECKS + EXPECTED["stack_checks"]
BUILD_SECONDS_MAX = 600.0
RUN_SECONDS_MAX = 90.0
SETUP_SECONDS_MAX = BUILD_SECONDS_MAX + RUN_SECONDS_MAX
_TRUSTING_NOBODY = {name: os.environ[name] for name in os.environ if name != "SSL_CERT_FILE"}
"""A CA is what `CLIENT_CA_FILE` names, and no stack's by itself."""

_SERVER = re.compile(r"(?:tcp:)?([^,]+)(?:,(\d+))?$")


@dataclass(frozen=True)
class Place:
    """Where a program finds the server, and as whom it logs in."""

    host: str
    port: int
    database: str
    administrator: tuple[str, str]
    reader: tuple[str, str]
    ca_file: str | None

    @classmethod
    def prepare(cls, server: Server) -> Place:
        """A database with everything that `setup` and the types' rows of expected.json ask for."""
        source = Source.create(server)
        types = EXPECTED["types"]
        columns = ", ".join(["id", *(column["name"] for column in types["columns"])])
        inserts = [
            f"INSERT INTO {types['table']} ({columns}) VALUES ({id_}, {', '.join(row['literals'])})"
            for id_, row in enumerate(types["rows"], 1)
        ]
        source.execute(*EXPECTED["setup"], *inserts)
        administrator, reader = odbc_pairs(server.admin), odbc_pairs(server.reader)
        address = _SERVER.match(administrator["server"])
        assert address is not None, "the connection string's Server is host,port"
        return cls(
            host=address.group(1),
            port=int(address.group(2) or 1433),
            database=source.name,
            administrator=(administrator["uid"], administrator["pwd"]),
            reader=(reader["uid"], reader["pwd"]),
            ca_file=server.ca_file,
        )

    @classmethod
    def certified(cls, server: Server) -> Place:
        """The same, for programs that verify the server; skips where its CA is not known."""
        if server.ca_file is None:
            pytest.skip("the CA of this server's certificate is not known")
        return cls.prepare(server)

    def environment(self) -> dict[str, str]:
        """What a program reads."""
        return {
            "CLIENT_HOST": self.host,
            "CLIENT_PORT": str(self.port),
            "CLIENT_DATABASE": self.database,
            "CLIENT_USER": self.administrator[0],
            "CLIENT_PASSWORD": self.administrator[1],
            "CLIENT_READER": self.reader[0],
            "CLIENT_READER_PASSWORD": self.reader[1],
            "CLIENT_CA_FILE": self.ca_file or "",
            "CLIENT_EXPECTED": str(EXPECTED_FILE),
        }


def build_folder(stack: str) -> Path:
    """Where a stack's builds and caches go, outside the source tree."""
    folder = ROOT / ".cdc" / "clients" / stack
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build(command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a step of a build; its output is shown when it fails."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, f"{' '.join(command)}:\n{ended.stdout}\n{ended.stderr}"


@dataclass(frozen=True)
class Outcomes:
    """What a program saw, by check; `log` is what else it said."""

    seen: Mapping[str, Mapping[str, Any]]
    log: str

    @classmethod
    def of(cls, command: Sequence[str], place: Place) -> Outcomes:
        """Run a program to its end; one that dies leaves the checks it had not come to."""
        ended = subprocess.run(
            command,
            env={**_TRUSTING_NOBODY, **place.environment()},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        # Not splitlines: the texts have line separators of Unicode in them.
        lines = [json.loads(line) for line in ended.stdout.split("\n") if line]
        log = f"{' '.join(command)} ended with {ended.returncode}\n{ended.stderr}"
        return cls({line["check"]: line for line in lines}, log)

    def got(self, check: str) -> Any:
        """What it saw in a check that it could finish."""
        assert check in self.seen, f"the program did not come to {check}: {self.log}"
        line = self.seen[check]
        assert line["ok"], f"{check} failed in the program: {line['got']}"
        return line["got"]
