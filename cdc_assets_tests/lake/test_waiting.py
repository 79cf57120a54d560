"""A stream of rows that waits for its source keeps nothing else in the process from going on.

Each in a process of its own: delta-rs makes its workers once, and what is wrong here hangs it.
"""

import os
import subprocess
import sys
from pathlib import Path

SECONDS_MAX = 100
"""How long such a process may take; it is killed then."""

STREAMS = """
import os, sys, threading
import pyarrow as pa
from cdc_assets.lake.tables import query
from deltalake import DeltaTable, write_deltalake

folder, count = sys.argv[1], int(sys.argv[2])
schema = pa.schema([("a", pa.int64())])
for _ in range(3):  # Several files: to aggregate them is work for delta-rs's workers.
    write_deltalake(f"{folder}/t", pa.table({"a": [1, 2, 3]}), mode="append")
table = DeltaTable(f"{folder}/t")
began, answered = threading.Semaphore(0), threading.Event()

def rows():
    yield pa.record_batch([pa.array([1])], schema)
    began.release()
    answered.wait()
    yield pa.record_batch([pa.array([2])], schema)

def stream(number):
    reader = pa.RecordBatchReader.from_batches(schema, rows())
    write_deltalake(f"{folder}/{number}", reader)

def counted():
    return query("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY a", t=table)["n"].to_pylist()

streams = [threading.Thread(target=stream, args=(number,)) for number in range(count)]
for one in streams:
    one.start()
for _ in streams:
    began.acquire()
"""
ANSWER = """
answered.set()
for one in streams:
    one.join()
print([DeltaTable(f"{folder}/{number}").version() for number in range(count)])
"""


def said(script: str, folder: Path, streams: int, **environment: str) -> list[str]:
    """What a process says that does something while so many streams wait."""
    inherited = {k: v for k, v in os.environ.items() if k != "TOKIO_WORKER_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", STREAMS + script, str(folder), str(streams)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_as_many_streams_as_cores_leave_workers_for_the_others(tmp_path: Path) -> None:
    """A source that does not answer must not keep the other tables, nor the records of the run."""
    cores = os.cpu_count() or 1
    others = f"""
print(counted())
write_deltalake(f"{{folder}}/t", pa.table({{"a": [4]}}), mode="append")
print(DeltaTable(f"{{folder}}/t").version())
{ANSWER}"""
    assert said(others, tmp_path, cores) == ["[3, 3, 3]", "3", str([0] * cores)]


def test_a_query_waits_for_a_worker_without_the_gil(tmp_path: Path) -> None:
    """Else the stream that has the worker, and needs the GIL for its next rows, waits for it too.

    Once in many runs of a hundred tables: everything stood still.
    """
    asked = f"""
found = []
asks = threading.Thread(target=lambda: found.extend(counted()))
asks.start()
asks.join(0.5)  # It has come to where it waits: nothing of ours can see that.
{ANSWER}
asks.join()
print(found)"""
    expected = ["[0]", "[3, 3, 3]"]
    assert said(asked, tmp_path, 1, TOKIO_WORKER_THREADS="1") == expected
