"""Where Spark is: in the run's own process, on a cluster, or behind a Spark Connect address."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

CONNECT_PORT = 15002
"""Port of a Spark Connect server whose address names none."""

_CONNECT = "sc://"


def is_connect(master: str) -> bool:
    """Whether it is the address of a Spark Connect server."""
    return master.startswith(_CONNECT)


def is_local(master: str) -> bool:
    """Whether tasks run on the run's own machine."""
    return master.startswith("local")


def connect_place(master: str) -> str:
    """host:port of a Spark Connect address, which alone may be shown: a token may follow."""
    address = _split(master)
    host = address.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{address.port or CONNECT_PORT}"


def master(value: str) -> str:
    """The value itself; raises `ValueError`, without it, where it is no address for Spark Connect.

    Its form is Spark's: sc://host:port/;name=value;name=value. Other masters are Spark's to judge.
    """
    if not is_connect(value):
        return value
    wrong = "a Spark Connect address is sc://host:port, or sc://host:port/;name=value for more"
    try:
        address = _split(value)
        is_there = bool(address.hostname) and (address.port or CONNECT_PORT) > 0
    except ValueError:
        is_there = False
    path, _, parameters = value.removeprefix(_CONNECT).partition("/")[2].partition(";")
    pairs = [pair for pair in parameters.split(";") if pair]
    if not is_there or path or any(pair.count("=") != 1 for pair in pairs):
        raise ValueError(wrong) from None
    return value


def _split(master: str) -> SplitResult:
    place, _, _ = master.removeprefix(_CONNECT).partition("/")
    return urlsplit(f"//{place}")
