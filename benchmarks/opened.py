"""Which files of a folder are opened meanwhile, by whoever: the kernel's own word (inotify)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator

_IN_OPEN = 0x20
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def opened_files(folder: str, suffix: str = ".parquet") -> Iterator[set[str]]:
    """The names of the files right in `folder` that end like this and were opened, at the end."""
    found: set[str] = set()
    watch = _libc.inotify_init1(os.O_NONBLOCK)
    if watch < 0 or _libc.inotify_add_watch(watch, os.fsencode(folder), _IN_OPEN) < 0:
        raise OSError(ctypes.get_errno(), "inotify", folder)
    try:
        yield found
        with contextlib.suppress(BlockingIOError):
            while data := os.read(watch, _READ_BYTES):
                found.update(name for name in _names(data) if name.endswith(suffix))
    finally:
        os.close(watch)


def _names(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        *_, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
