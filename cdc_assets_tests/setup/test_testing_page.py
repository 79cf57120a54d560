"""`docs/testing.md` names tests that are there, and each history once."""

import re

from cdc_assets_tests.cases import TESTS

PAGE = TESTS.parent / "docs" / "testing.md"
HISTORIES = 14


def test_every_test_of_the_page_is_there() -> None:
    named = re.findall(r"`((?:\w+/)+test_\w+\.py)(?:::(\w+))?`", PAGE.read_text())
    assert named
    for file, test in named:
        assert not test or f"def {test}(" in (TESTS / file).read_text(), f"{file}::{test}"


def test_every_history_has_its_tests() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| `.+` \|$", PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, HISTORIES + 1))
