"""The page of public cases and the tests that name them say the same."""

from __future__ import annotations

from cdc_assets_tests.cases import PAGE, named, renewed, rows

CASES = 115
REASONS = ("not yet: ", "cannot apply: ")


def test_every_case_is_listed_once_in_order() -> None:
    ids = [row.id for row in rows(PAGE.read_text())]
    assert ids == sorted(set(ids))
    assert len(ids) == CASES
    assert set(named()) <= set(ids)


def test_every_case_has_a_test_or_a_reason() -> None:
    for row in rows(PAGE.read_text()):
        assert row.fault, row
        assert row.tests or row.rest.startswith(REASONS), row
        assert not row.rest or row.rest.startswith(REASONS), row


def test_the_page_names_the_tests_that_name_the_cases() -> None:
    page = PAGE.read_text()
    assert page == renewed(page), "write it anew: python -m cdc_assets_tests.cases"
