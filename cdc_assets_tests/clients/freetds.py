"""FreeTDS: `tsql`, and its ODBC driver under pyodbc, both led by one freetds.conf."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyodbc

from cdc_assets_tests.clients.drivers import DATETIMEOFFSET, LOGIN_SECONDS_MAX, Pyodbc, offset_text
from cdc_assets_tests.clients.stacks import RUN_SECONDS_MAX, Place

ODBC_DRIVER = next(Path("/usr/lib").glob("*/odbc/libtdsodbc.so"), None)
VERIFIED, STRANGE, PLAIN = "verified", "strange", "plain"
LEAST_ERROR_SEVERITY = 11
_CONF_VARIABLE = "FREETDSCONF"
_MESSAGE = re.compile(r'Msg (\d+) \(severity (\d+), state \d+\) from [^\n]*\n\t"(.*)"\n')


def write_conf(place: Place, folder: Path) -> Path:
    """freetds.conf with a server for each kind of login: the server's CA, strange ones, none."""
    encryption = {
        VERIFIED: f"encryption = require\nca file = {place.ca_file}",
        STRANGE: "encryption = require\nca file = system",
        PLAIN: "encryption = off",
    }
    # The certificate is for the name, not for an address.
    common = f"host = localhost\nport = {place.port}\ntds version = 7.4\nclient charset = UTF-8"
    path = folder / "freetds.conf"
    path.write_text("\n".join(f"[{name}]\n{common}\n{own}" for name, own in encryption.items()))
    return path


@dataclass(frozen=True)
class Said:
    """What tsql printed: lines of columns between tabs, and errors (number, severity, text).

    What is below severity 11 informs only, as SQL Server has it.
    """

    lines: list[str]
    errors: list[tuple[int, int, str]]
    status: int


@dataclass(frozen=True)
class Tsql:
    """The command line client, one session a call."""

    place: Place
    conf: Path

    def run(self, *batches: str, server: str = VERIFIED, **login: str) -> Said:
        """Send batches and read all that came back; `user` and `password` for another login."""
        user, password = self.place.administrator
        command = ["tsql", "-o", "q", "-S", server, "-D", self.place.database]
        command += ["-U", login.get("user", user), "-P", login.get("password", password)]
        ended = subprocess.run(
            command,
            input="".join(f"{batch}\ngo\n" for batch in (*batches, "")) + "exit\n",
            env={**os.environ, _CONF_VARIABLE: str(self.conf), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            encoding="utf-8",
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        errors = [
            (int(number), int(severity), text)
            for number, severity, text in _MESSAGE.findall(ended.stderr)
            if int(severity) >= LEAST_ERROR_SEVERITY
        ]
        # Not splitlines: a text may have Unicode's own line separators in it.
        return Said(ended.stdout.split("\n")[:-1], errors, ended.returncode)


class FreeTds(Pyodbc):
    """pyodbc over FreeTDS's ODBC driver instead of Microsoft's."""

    name = "FreeTDS"

    def __init__(self, conf: Path) -> None:
        self.conf = conf

    def connect(self, place: Place, **how: Any) -> Any:
        user, password = how.get("login", place.administrator)
        server = VERIFIED if how.get("tls", True) else PLAIN
        if how.get("ca_file", place.ca_file) != place.ca_file:
            server = STRANGE
        pairs = {
            "Driver": ODBC_DRIVER,
            "Servername": server,
            "Database": how.get("database", place.database),
            "UID": user,
            "PWD": password,  # in braces they would belong to it
        }
        text = ";".join(f"{key}={value}" for key, value in pairs.items())
        with self._configured():
            connection = pyodbc.connect(
                text, autocommit=how.get("autocommit", True), timeout=LOGIN_SECONDS_MAX
            )
        connection.add_output_converter(DATETIMEOFFSET, offset_text)
        return connection

    @contextlib.contextmanager
    def _configured(self) -> Iterator[None]:
        os.environ[_CONF_VARIABLE] = str(self.conf)
        try:
            yield
        finally:
            del os.environ[_CONF_VARIABLE]


def lines(rows: Sequence[Sequence[str | None]]) -> list[str]:
    """Rows as tsql prints them."""
    return ["\t".join("NULL" if value is None else value for value in row) for row in rows]
