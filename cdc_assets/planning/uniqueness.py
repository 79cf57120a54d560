"""Whether a table holds each key once: what is asked of it, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from cdc_assets.planning.bounds import KeyRange, Times
from cdc_assets.planning.literals import quoted
from cdc_assets.planning.verdict import Reason

KEY_RANGES_AT_ONCE_MAX = 64
"""Ranges of the key that one check of a table counts; of more, others come on the next day."""


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Whether each key is there once; `keys` is how many are there more than once.

    `checked` says which versions of the tables were looked at as a whole and found right; "" where
    that was only a part, or not so.
    """

    passed: bool
    reason: Reason
    text: str
    keys: int = 0
    checked: str = ""


def repeated_keys(keys: Sequence[str], live: str, within: str) -> str:
    """How many keys several rows of a table have, as `keys`; it is called `bronze`.

    `live` says which rows count, `within` which keys. NULL is a key like any other, as a MERGE
    takes it.
    """
    names = ", ".join(map(quoted, keys))
    return (
        f"SELECT count(*) AS `keys` FROM (SELECT {names} FROM `bronze`"
        f" WHERE ({live}) AND ({within}) GROUP BY {names} HAVING count(*) > 1) AS repeated"
    )


def within(part: KeyRange) -> str:
    """The condition that a key is in a range, for DataFusion."""
    return part.holds(Times.DATAFUSION)


def of_today(ranges: Sequence[KeyRange], today: date) -> Sequence[KeyRange]:
    """The ranges to count on a day: all, or as many as one check counts, others each day."""
    if len(ranges) <= KEY_RANGES_AT_ONCE_MAX:
        return ranges
    begin = today.toordinal() * KEY_RANGES_AT_ONCE_MAX % len(ranges)
    return [*ranges, *ranges][begin : begin + KEY_RANGES_AT_ONCE_MAX]


def judge_unique(repeated: int, seen: int, ranges: int, checked: str) -> Uniqueness:
    """What is said where so many of a table's ranges were counted."""
    part = (
        f" in {seen} of {ranges} ranges of the key; others come tomorrow" if seen < ranges else ""
    )
    if repeated:
        are = "key is" if repeated == 1 else "keys are"
        text = (
            f"{repeated:,} {are} there more than once{part}. Are the `keys` of tables.yaml those of"
            " a unique index? Others make silver anew; else: cdc-assets reset."
        )
        return Uniqueness(False, Reason.KEY_REPEATED, text, repeated)
    text = f"Each key is there once{part}."
    return Uniqueness(True, Reason.ON_TIME, text, checked="" if part else checked)


def uncut(rows: int, rows_max: int) -> Uniqueness:
    """What is said of a table that is too large to count at once, and whose key cannot be cut."""
    text = (
        f"Not counted: {rows:,} rows, and no column of the key can be cut into ranges of"
        f" `arrow_rank_rows_max` ({rows_max:,}). A larger one takes more memory, and counts them."
    )
    return Uniqueness(False, Reason.KEYS_UNCOUNTED, text)
