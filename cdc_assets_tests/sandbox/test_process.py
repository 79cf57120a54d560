"""The server as a process of its own: Ctrl-C, and two servers on one state."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import arrow_odbc
import pyarrow as pa
import pytds
import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.state import StateInUseError
from cdc_assets_tests.sandbox.wire.clients import driver, read

STOP_SECONDS = 60


def command(state: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "cdc_assets.sandbox", "--state", str(state), *options]


@contextmanager
def running(state: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server process that is ready, and its port."""
    with subprocess.Popen(
        command(state, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        found = re.search(r"tcp:127\.0\.0\.1,(\d+)", ready)
        assert found, process.stderr.read() if process.stderr else ready
        try:
            yield process, int(found.group(1))
        finally:
            process.kill()


def connected(state: Path, monkeypatch: pytest.MonkeyPatch) -> arrow_odbc.Connection:
    monkeypatch.setenv("SSL_CERT_FILE", str(state / "ca.pem"))
    text = (state / "sales.admin.odbc").read_text().strip()
    return arrow_odbc.connect(f"Driver={driver()};{text}")


def administrator(state: Path, port: int, **options: object) -> pytds.Connection:
    password = (state / "sa.password").read_text().strip()
    return pytds.connect(
        "127.0.0.1", port=port, user="sa", password=password, database="sales", **options
    )


def read_until_it_ends(connection: arrow_odbc.Connection, begun: threading.Event) -> None:
    """Read one table after another until the server is gone."""
    while True:
        reader = connection.read_arrow_batches(
            "SELECT * FROM dbo.lineitem",
            batch_size=500,
            payload_text_encoding=arrow_odbc.TextEncoding.UTF16,
        )
        for _ in reader:
            begun.set()


def test_ctrl_c_while_clients_read_and_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    failures: list[Exception] = []
    with running(state, "--workload", "0.05") as (process, port):
        begun = [threading.Event() for _ in range(3)]

        def work(event: threading.Event) -> None:
            try:
                read_until_it_ends(connected(state, monkeypatch), event)
            except (arrow_odbc.Error, pa.ArrowException, OSError) as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(event,)) for event in begun]
        for thread in threads:
            thread.start()
        writer = administrator(state, port, autocommit=False)
        with writer.cursor() as cursor:
            cursor.execute("DELETE FROM dbo.orders WHERE order_id = 1")
            writer.commit()
            cursor.execute("DELETE FROM dbo.orders")  # open when the server ends
        assert all(event.wait(STOP_SECONDS) for event in begun)
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
        for thread in threads:
            thread.join(STOP_SECONDS)
            assert not thread.is_alive()
        assert len(failures) == 3  # each was told, none waits for ever
    with running(state) as (process, again):
        assert again == port
        table = read(
            connected(state, monkeypatch),
            "SELECT MIN(order_id) AS o, COUNT(*) AS n FROM dbo.orders",
        )
        assert table.to_pylist() == [{"o": 2, "n": 2_499}]


def test_ctrl_c_at_once(tmp_path: Path) -> None:
    """The first thing after the start: what a process still does in the background ends too."""
    with running(tmp_path / "state") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def refused(state: Path, *options: str) -> str:
    """What a server says that does not start."""
    ended = subprocess.run(
        command(state, *options), capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    return ended.stderr


def test_two_servers_on_one_state(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Sandbox(state) as first:
        first.execute("CREATE DATABASE sales", "master")
        assert refused(state, "--fresh") == (
            f"a sandbox (process {os.getpid()}) is running on {state}: stop it, or give this one"
            " another directory\n"
        )
        for fresh in (False, True):
            with pytest.raises(StateInUseError, match="is running on"):
                Sandbox(state, fresh=fresh).start()
        first.execute("CREATE TABLE t (a int)")  # nobody took its files away
    with Sandbox(state) as again:
        again.execute("INSERT t VALUES (1)")


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with Sandbox(tmp_path / "one") as first:
        said = refused(tmp_path / "two", "--port", str(first.port))
    assert re.fullmatch(r"the sandbox on .* cannot start: .*in use.*\n", said)
