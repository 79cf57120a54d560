"""A Spark Connect server that cannot be used is one sentence; what needs one is in `cluster/`."""

import logging
import socket
import subprocess
import sys

import pytest

from cdc_assets.engines.spark import connect
from cdc_assets.engines.spark.config import SessionConfig
from cdc_assets.engines.spark.failures import is_unreachable
from cdc_assets.errors import SparkUnavailableError
from cdc_assets.settings.model import SparkSettings


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_server_that_is_not_there_is_one_sentence_without_its_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "CONTACT_RETRIES_MAX", 1)
    port = free_port()
    settings = SparkSettings(master=f"sc://127.0.0.1:{port}/;token=canary-7f3a;use_ssl=true")
    config = SessionConfig.of(settings)
    with pytest.raises(SparkUnavailableError) as caught:
        connect.connect(config)
    assert caught.value.what == f"the Spark Connect server at 127.0.0.1:{port} does not answer"
    assert caught.value.transient
    for text in (str(caught.value), repr(config), repr(settings)):
        assert "canary-7f3a" not in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_process_ends_after_it_and_says_nothing_else() -> None:
    """Neither pyspark's warnings nor its logs, and no connection that keeps it from ending."""
    code = (
        "from cdc_assets.engines.spark import connect\n"
        "from cdc_assets.engines.spark.config import SessionConfig\n"
        "connect.CONTACT_RETRIES_MAX = 0\n"
        f"try: connect.connect(SessionConfig('sc://127.0.0.1:{free_port()}'))\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert "does not answer" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_daemons_that_stay_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for place in ("a:1", "a:1", "b:1"):
            connect.warn_of_daemons(place, "true")
        connect.warn_of_daemons("c:1", "false")
    assert [record.args[0] for record in caplog.records if record.args] == ["a:1", "b:1"]
    assert "--conf spark.python.use.daemon=false" in caplog.text


def test_other_failures_are_not_taken_for_a_lost_server() -> None:
    assert not is_unreachable(RuntimeError("UNAVAILABLE: INVALID_HANDLE.SESSION_CLOSED"))
