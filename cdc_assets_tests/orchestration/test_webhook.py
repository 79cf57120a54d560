"""A post arrives, or it is said in a sentence why not, and never where it was going."""

from __future__ import annotations

import socket

import pytest

from cdc_assets.orchestration.webhook import post
from cdc_assets_tests.orchestration.receiver import SECRET_PATH, receiver

DOCUMENT = {"text": "naïve ✓"}


def test_it_arrives() -> None:
    with receiver() as found:
        assert post(found.url, DOCUMENT, 5) is None
    assert found.documents == [DOCUMENT]


@pytest.mark.parametrize(
    ("status", "told"),
    [(500, "answered 500"), (404, "answered 404"), (302, "answered 302"), (None, "within 0.5 s")],
)
def test_it_is_refused_or_nobody_answers(status: int | None, told: str) -> None:
    """A redirect would make it a request without a body, which tells nothing."""
    with receiver() as found:
        found.status = status
        problem = post(found.url, DOCUMENT, 0.5)
    assert problem is not None
    assert told in problem
    assert SECRET_PATH not in problem


def test_nobody_is_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}{SECRET_PATH}"
        problem = post(url, DOCUMENT, 5)
    assert problem is not None
    assert "refused" in problem
    assert SECRET_PATH not in problem


@pytest.mark.parametrize("url", ["", "s3cret", "http://[s3cret", "http://h:s3cret/x", "http://é/"])
def test_what_is_no_url_is_not_shown(url: str) -> None:
    problem = post(url, DOCUMENT, 1)
    assert problem is not None
    assert "s3cret" not in problem
