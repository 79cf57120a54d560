"""What is counted of a table's keys on a day, and what is said of it."""

from datetime import date, timedelta

from cdc_assets.contract import Column
from cdc_assets.planning.bounds import KeyRange
from cdc_assets.planning.uniqueness import (
    KEY_RANGES_AT_ONCE_MAX,
    judge_unique,
    of_today,
    repeated_keys,
    within,
)
from cdc_assets.planning.verdict import Reason

ID = Column("id", "INT", "")
DAY = date(2026, 12, 1)


def ranges(count: int) -> list[KeyRange]:
    return [KeyRange(ID, number, number + 1) for number in range(count)]


def test_all_ranges_come_in_turn() -> None:
    """As many a day as the limit says, and each within as many days as that takes."""
    few = ranges(KEY_RANGES_AT_ONCE_MAX)
    assert of_today(few, DAY) == few
    many = ranges(2 * KEY_RANGES_AT_ONCE_MAX + 7)
    days = [of_today(many, DAY + timedelta(days=n)) for n in range(3)]
    assert {len(day) for day in days} == {KEY_RANGES_AT_ONCE_MAX}
    assert {part for day in days for part in day} == set(many)


def test_what_is_said() -> None:
    whole = judge_unique(0, 2, 2, "a@1")
    assert (whole.passed, whole.reason, whole.checked) == (True, Reason.ON_TIME, "a@1")
    part = judge_unique(0, 2, 3, "a@1")
    assert (part.passed, part.checked) == (True, ""), "what was not seen is not checked"
    assert "2 of 3 ranges" in part.text
    red = judge_unique(4, 1, 1, "a@1")
    assert (red.passed, red.reason, red.keys, red.checked) == (False, Reason.KEY_REPEATED, 4, "")
    assert "cdc-assets reset" in red.text


def test_the_text_quotes_names_and_cuts_by_range() -> None:
    text = repeated_keys(("a`b", "id"), "true", within(ranges(2)[1]))
    assert "GROUP BY `a``b`, `id`" in text
    assert "`id` >= CAST(1 AS INT)" in text
