"""The child process behind the peer: answers, silence and a bad end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.child import ChildError, JsonChild
from benchmarks.peer import environment
from benchmarks.peer.environment import PeerUnavailableError, peer_python

ECHO = (
    "import sys, json\nfor line in sys.stdin: print(json.dumps({'told': line.strip()}), flush=True)"
)


def child(folder: Path, program: str, seconds: float = 20) -> JsonChild:
    return JsonChild(
        [sys.executable, "-c", program], log=folder / "log", answer_seconds_max=seconds
    )


def test_it_answers_line_by_line(tmp_path: Path) -> None:
    with child(tmp_path, ECHO) as process:
        for word in ("one", "two"):
            process.tell(word)
            assert process.answer() == {"told": word}


def test_one_that_ends_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    program = "import sys; sys.exit('no such table')"
    with child(tmp_path, program) as process, pytest.raises(ChildError, match="no such table"):
        process.answer()


def test_one_that_says_nothing_is_an_error_and_is_ended(tmp_path: Path) -> None:
    program = "import time; time.sleep(600)"
    with pytest.raises(ChildError, match="no answer in 0 s"), child(tmp_path, program, 0.1) as it:
        it.answer()
    assert it._process.poll() is not None


def test_without_java_the_peer_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    with pytest.raises(PeerUnavailableError, match="needs Java"):
        peer_python(tmp_path / "peer")
    assert not (tmp_path / "peer").exists()
