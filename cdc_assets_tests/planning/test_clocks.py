"""Local commit times in UTC, also where the clock is changed (B150, B152, B153)."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.lsn import Lsn
from cdc_assets.planning.clocks import ClockRow, OffsetStep, ServerClock, offset_steps

SUMMER, WINTER = 120, 60
FALL_BACK = datetime(2027, 10, 31, 1)  # UTC; local 03:00 becomes 02:00.
SPRING_FORWARD = datetime(2027, 3, 28, 1)


def lsn(number: int) -> Lsn:
    return Lsn.of_int(number)


def offset_at(utc: datetime, change: datetime, before: int, after: int) -> int:
    return before if utc < change else after


def at_time_zone(local: datetime, change: datetime) -> int:
    """What the server says of a local time: in the repeated hour the offset before the change."""
    if change == FALL_BACK:
        return SUMMER if local < datetime(2027, 10, 31, 3) else WINTER
    return WINTER if local < datetime(2027, 3, 28, 2) else SUMMER


def log_rows(commits: list[datetime], change: datetime) -> list[ClockRow]:
    """What `clock_queries.offset_changes` gives for commits at these UTC times."""
    before, after = (SUMMER, WINTER) if change == FALL_BACK else (WINTER, SUMMER)
    rows: list[ClockRow] = []
    last: tuple[int, datetime] | None = None
    for number, utc in enumerate(commits, start=1):
        local = utc + timedelta(minutes=offset_at(utc, change, before, after))
        minutes = at_time_zone(local, change)
        later = at_time_zone(local + timedelta(hours=1), change)
        went_back = last is not None and local + timedelta(minutes=1) <= last[1]
        if last is None or minutes != last[0] or went_back:
            rows.append(ClockRow(lsn(number), minutes, later, went_back))
        last = (minutes, local)
    return rows


def to_utc(commits: list[datetime], change: datetime) -> list[datetime]:
    """The commits' UTC times as the product finds them."""
    before, after = (SUMMER, WINTER) if change == FALL_BACK else (WINTER, SUMMER)
    clock = ServerClock(commits[-1], offset_steps(log_rows(commits, change)))
    return [
        clock.to_utc(utc + timedelta(minutes=offset_at(utc, change, before, after)), lsn(number))
        for number, utc in enumerate(commits, start=1)
    ]


# A commit at least every five minutes: the idle entries of a quiet database.
gaps = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(gaps, st.integers(-9_000, -3_700))
def test_a_fall_back_is_exact(seconds: list[int], start: int) -> None:
    commits = [FALL_BACK + timedelta(seconds=start)]
    for gap in seconds:
        commits.append(commits[-1] + timedelta(seconds=gap))
    assert to_utc(commits, FALL_BACK) == commits


@given(st.lists(st.integers(1, 7_000), min_size=1, max_size=10), st.integers(-9_000, 9_000))
def test_where_nothing_tells_the_time_is_never_too_late(seconds: list[int], start: int) -> None:
    commits = [FALL_BACK + timedelta(seconds=start)]
    for gap in seconds:
        commits.append(commits[-1] + timedelta(seconds=gap))
    assert all(a <= b for a, b in zip(to_utc(commits, FALL_BACK), commits, strict=True))


@given(gaps, st.integers(-7_000, 7_000))
def test_a_spring_forward_is_exact(seconds: list[int], start: int) -> None:
    commits = [SPRING_FORWARD + timedelta(seconds=start)]
    for gap in seconds:
        commits.append(commits[-1] + timedelta(seconds=gap))
    assert to_utc(commits, SPRING_FORWARD) == commits


def test_a_clock_that_was_set_back_changes_no_offset() -> None:
    rows = [
        ClockRow(lsn(1), SUMMER, SUMMER, went_back=False),
        ClockRow(lsn(5), SUMMER, SUMMER, went_back=True),
    ]
    assert offset_steps(rows) == (OffsetStep(lsn(0), SUMMER),)


def test_segments_cut_a_range_where_the_offset_changes() -> None:
    clock = ServerClock(FALL_BACK, (OffsetStep(lsn(0), SUMMER), OffsetStep(lsn(50), WINTER)))
    assert clock.segments(lsn(10), lsn(90)) == [(lsn(10), lsn(49)), (lsn(50), lsn(90))]
    assert clock.segments(lsn(50), lsn(60)) == [(lsn(50), lsn(60))]
    assert [clock.minutes_at(lsn(n)) for n in (1, 49, 50, 99)] == [120, 120, 60, 60]
