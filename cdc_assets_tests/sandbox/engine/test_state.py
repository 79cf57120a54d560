"""Stop and start keeps everything; the handle and the workload."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytds
import pytest

from cdc_assets.sandbox.engine import entries
from cdc_assets.sandbox.handle import Sandbox
from cdc_assets.sandbox.workload.changes import Changes
from cdc_assets.sandbox.workload.tables import Scale
from cdc_assets_tests.sandbox.harness import Client, Server, captured, max_lsn


def fill(db: Client) -> None:
    db.run(
        "CREATE TABLE t (id int IDENTITY PRIMARY KEY, v nvarchar(10))",
        "EXEC sys.sp_cdc_enable_db",
    )
    captured(db, "t")
    db.run("INSERT t (v) VALUES (N'a'), (N'b')", "GRANT SELECT ON t TO public")


def test_restart_keeps_everything(engine_server: Server, db: Client) -> None:
    fill(db)
    db.run("EXEC sys.sp_cdc_stop_job 'capture'", "INSERT t (v) VALUES (N'pending')")
    before = max_lsn(db)
    engine_server.restart()
    again = engine_server.client()
    assert again.rows("SELECT * FROM t") == [(1, "a"), (2, "b"), (3, "pending")]
    assert max_lsn(again) == before
    again.run("EXEC sys.sp_cdc_start_job 'capture'", "INSERT t (v) VALUES (N'c')")
    assert again.rows("SELECT id, v FROM cdc.dbo_t_CT")[2:] == [(3, "pending"), (4, "c")]
    assert str(max_lsn(again)) > str(before)


def test_an_identity_value_never_comes_back(engine_server: Server, db: Client) -> None:
    db.run("CREATE TABLE t (id int IDENTITY(10, 5), v int)", "INSERT t VALUES (1), (2)", "DELETE t")
    for expected in (20, 25):
        engine_server.restart()
        again = engine_server.client()
        again.run("INSERT t VALUES (3)")
        assert again.value("SELECT MAX(id) FROM t") == expected


def test_alias_types_outlive_a_restart(engine_server: Server, db: Client) -> None:
    db.run("CREATE TYPE price FROM decimal(9, 2) NOT NULL", "CREATE TABLE t (p price)")
    engine_server.restart()
    again = engine_server.client()
    assert again.value("SELECT name FROM sys.types WHERE is_user_defined = 1") == "price"
    assert again.error("DROP TYPE price").number == 3732


def test_every_kind_of_entry_is_read_back() -> None:
    """What the catalogue stores under a name that it does not know, no server starts with."""
    stored = [
        kind
        for kind in vars(entries).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and hasattr(kind, "key")
    ]
    assert set(entries.KINDS.values()) == set(stored)
    owned = {kind for kind in stored if "database" in {f.name for f in dataclasses.fields(kind)}}
    assert set(entries.OWNED) == owned - {entries.Login}  # a login's is where it begins


def killed_in(empty_shop: Path, tmp_path: Path, script: str) -> Path:
    """The state that a process leaves which kills itself at the end of a script."""
    state = tmp_path / "state"
    subprocess.run(["cp", "-r", str(empty_shop), str(state)], check=True)
    killed = subprocess.run([sys.executable, "-c", script, str(state)], check=False)
    assert killed.returncode == -signal.SIGKILL
    return state


def test_a_kill_gives_no_identity_value_twice(empty_shop: Path, tmp_path: Path) -> None:
    """SQL Server's cache: after a kill values are missing, up to a thousand of an int's."""
    script = (
        "import sys, os, signal; from pathlib import Path\n"
        "from cdc_assets_tests.sandbox.harness import Server\n"
        "db = Server(Path(sys.argv[1])).client()\n"
        "db.run('CREATE TABLE t (id int IDENTITY, v int)', 'INSERT t VALUES (1), (2)')\n"
        "db.run('DELETE t', 'CREATE TABLE back (id smallint IDENTITY(1, -1), v int)')\n"
        "db.run('BEGIN TRAN; INSERT back VALUES (1), (2)')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    server = Server(killed_in(empty_shop, tmp_path, script))
    try:
        for expected in ((1003, -101), (1004, -102)):
            db = server.client()
            db.run("INSERT t VALUES (3); INSERT back VALUES (3)")
            assert db.value("SELECT MAX(id) FROM t") == expected[0]
            assert db.value("SELECT MIN(id) FROM back") == expected[1]
            server.restart()
    finally:
        server.close()


def test_a_kill_loses_nothing_committed(empty_shop: Path, tmp_path: Path) -> None:
    script = (
        "import sys, os, signal; from pathlib import Path\n"
        "from cdc_assets_tests.sandbox.harness import Server\n"
        "from cdc_assets_tests.sandbox.engine.test_state import fill\n"
        "db = Server(Path(sys.argv[1])).client()\n"
        "fill(db)\n"
        "db.run('BEGIN TRAN; INSERT t (v) VALUES (N\\'open\\')')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    server = Server(killed_in(empty_shop, tmp_path, script))
    try:
        db = server.client()
        assert db.rows("SELECT * FROM t") == [(1, "a"), (2, "b")]
        db.run("INSERT t (v) VALUES (N'c')")
        assert [r[1] for r in db.rows("SELECT [__$start_lsn], v FROM cdc.dbo_t_CT")] == [
            "a",
            "b",
            "c",
        ]
    finally:
        server.close()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "sandbox")


def connect(sandbox: Sandbox, *, admin: bool = False) -> pytds.Connection:
    return pytds.connect(
        "127.0.0.1",
        port=sandbox.port,
        user="sa" if admin else "reader",
        password=sandbox.admin_password if admin else sandbox.reader_password,
        database="sales",
        autocommit=True,
    )


def test_the_handle_serves_the_workload(sandbox: Sandbox) -> None:
    with sandbox:
        size = sandbox.load_workload(0.02, seed=7)
        text = sandbox.connection_file().read_text()
        assert text.startswith(
            f"Server=tcp:127.0.0.1,{sandbox.port};Database=sales;UID=reader;PWD="
        )
        assert text.strip().endswith("Encrypt=yes;HostNameInCertificate=localhost")
        for admin in (False, True):
            assert sandbox.connection_file(admin=admin).stat().st_mode & 0o777 == 0o600
        assert sandbox.ca_file.exists()
        port = sandbox.port
        with connect(sandbox) as client, client.cursor() as cursor:
            cursor.execute("SELECT COUNT(*), MIN(order_id), MAX(order_id) FROM dbo.orders")
            assert cursor.fetchone() == (size.orders, 1, size.orders)
            cursor.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_min_lsn('dbo_orders'), 1)")
            assert cursor.fetchone()[0] > "0x00000001"
            with pytest.raises(pytds.Error):
                cursor.execute("UPDATE dbo.orders SET status = 'F'")
    with sandbox:
        assert sandbox.port == port
        with connect(sandbox) as client, client.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM dbo.customer")
            assert cursor.fetchone() == (size.customers,)


def test_the_same_seed_loads_the_same_rows(tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        with Sandbox(tmp_path / name) as sandbox:
            sandbox.load_workload(0.01, seed=seed)
            with connect(sandbox) as client, client.cursor() as cursor:
                cursor.execute("SELECT * FROM dbo.lineitem ORDER BY order_id, line_number")
                found.append(cursor.fetchall())
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_changes_are_repeatable_and_run(sandbox: Sandbox) -> None:
    size = Scale.of(0.02)
    texts = list(Changes(size, seed=5).batches(60))
    assert texts == list(Changes(size, seed=5).batches(60))
    assert texts != list(Changes(size, seed=6).batches(60))
    with sandbox:
        sandbox.load_workload(0.02)
        with connect(sandbox, admin=True) as client, client.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            cursor.execute("SELECT DISTINCT [__$operation] FROM cdc.dbo_orders_CT ORDER BY 1")
            assert cursor.fetchall() == [(1,), (2,), (3,), (4,)]
            cursor.execute(
                "SELECT (SELECT COUNT(*) FROM dbo.orders), "
                f"{size.orders} + SUM(CASE [__$operation] WHEN 2 THEN 1 WHEN 1 THEN -1 ELSE 0 END) "
                "FROM cdc.dbo_orders_CT"
            )
            counted, expected = cursor.fetchone()
            assert counted == expected


def test_the_workload_spans_transactions_and_repeats_itself(tmp_path: Path) -> None:
    """The same seed leaves the same rows; long transactions end after ones that began later."""
    found = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        with Sandbox(tmp_path / name) as sandbox:
            sandbox.load_workload(0.01)
            done = sandbox.run_workload(seed=seed, transactions=40)
            assert done.given_up == 0
            assert done.batches > 40
            with connect(sandbox, admin=True) as client, client.cursor() as cursor:
                cursor.execute(
                    "SELECT order_id, status, total_price, comment FROM dbo.orders ORDER BY 1"
                )
                found.append(cursor.fetchall())
                cursor.execute(
                    "SELECT COUNT(*) FROM cdc.lsn_time_mapping AS a INNER JOIN "
                    "cdc.lsn_time_mapping AS b ON a.start_lsn > b.start_lsn AND "
                    "a.tran_begin_time < b.tran_begin_time AND a.tran_id < b.tran_id"
                )
                assert cursor.fetchone()[0] > 0
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_the_workload_keeps_its_rate_and_goes_on_where_it_was(sandbox: Sandbox) -> None:
    with sandbox:
        sandbox.load_workload(0.01)
        began = time.monotonic()
        sandbox.run_workload(transactions=21, per_second=20)
        assert time.monotonic() - began >= 0.9
        stop = threading.Event()
        timer = threading.Timer(0.5, stop.set)
        timer.start()
        assert sandbox.run_workload(per_second=100, stop=stop).batches > 1
        assert sandbox.run_workload(transactions=30).given_up == 0


def test_fresh_spares_what_is_not_a_sandbox(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(ValueError, match="not removing"):
        Sandbox(tmp_path, fresh=True)
    with Sandbox(tmp_path / "s") as sandbox:
        sandbox.load_workload(0.01)
    with Sandbox(tmp_path / "s", fresh=True) as sandbox:
        assert "sales" not in sandbox.engine.store.catalog.databases


def test_in_the_foreground(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cdc_assets.sandbox", "--state", str(tmp_path / "s")]
    with subprocess.Popen(
        [*command, "--workload", "0.01", "--capture-interval", "0.2", "--rate", "30"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("sandbox ready: server tcp:127.0.0.1,")
            assert str(tmp_path / "s" / "sales.odbc") in ready
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            assert time.monotonic() - began < 5
        finally:
            process.kill()  # leaving the block waits for its end
