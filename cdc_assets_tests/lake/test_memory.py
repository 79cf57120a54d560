"""Threads come and go with every batch: what they leave behind must not add up."""

import os
import platform
import subprocess
import sys

import pytest

from cdc_assets.lake import ARENAS_MAX

THREADS = 12
COUNTED = f"""
import ctypes, threading
{{imports}}
barrier = threading.Barrier({THREADS})
def hold():
    held = [bytearray(20_000) for _ in range(20)]
    barrier.wait()
threads = [threading.Thread(target=hold) for _ in range({THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
stdout = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, stdout)
libc.fflush(stdout)
"""


def arenas(imports: str) -> int:
    """How many there are once a dozen threads have allocated at the same time."""
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    text = COUNTED.format(imports=imports)
    told = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, env=env)
    return told.stdout.count(b"<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_what_they_allocate_from() -> None:
    assert arenas("") > ARENAS_MAX
    assert arenas("import cdc_assets.lake") <= ARENAS_MAX
