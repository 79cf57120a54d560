"""Which ranges of silver's key a wave may delete from, and which it must leave to the rebuild."""

import itertools
from dataclasses import replace
from datetime import date, datetime

import pytest

from cdc_assets.contract import Column
from cdc_assets.lsn import Lsn
from cdc_assets.planning.absent import (
    ABSENT_RANGES_MAX,
    AbsentRange,
    ChunkRanges,
    absent_ranges,
    range_key,
)
from cdc_assets.planning.applying import ToldWave
from cdc_assets.planning.chunks import Chunk
from cdc_assets.planning.keysets import KeyType

FIRST, SECOND = Lsn.of_int(30), Lsn.of_int(40)
ID = Column("id", "INT")


def cut(*bounds: str | None, declared: str = "int") -> ChunkRanges:
    """A plan of one column, of chunks between these bounds; open at both ends."""
    keys = [None if bound is None else (bound,) for bound in bounds]
    ends = zip([None, *keys], [*keys, None], strict=True)
    chunks = {n: Chunk(n, lower, upper, 1) for n, (lower, upper) in enumerate(ends)}
    return ChunkRanges(("id",), (KeyType(declared),), chunks)


def test_neighbours_of_one_stamp_are_one_range() -> None:
    waves = (ToldWave(0, FIRST, (0, 1)), ToldWave(1, SECOND, (2,)))
    assert absent_ranges(waves, cut("10", "20")) == (
        AbsentRange(None, 20, FIRST),
        AbsentRange(20, None, SECOND),
    )


def test_a_chunk_that_the_plan_lacks_ends_a_range() -> None:
    whole = cut("10", "20", "30")
    plan = replace(whole, chunks={n: chunk for n, chunk in whole.chunks.items() if n != 1})
    found = absent_ranges([ToldWave(0, FIRST, (0, 1, 2))], plan)
    assert found == (AbsentRange(None, 10, FIRST), AbsentRange(20, 30, FIRST))


def test_the_largest_bigint_and_one_more_is_open() -> None:
    plan = cut("9223372036854775807", "9223372036854775808")
    assert absent_ranges([ToldWave(0, FIRST, (1,))], plan) == (
        AbsentRange(9223372036854775807, None, FIRST),
    )


def test_digits_below_the_microsecond_leave_its_keys_to_the_rebuild() -> None:
    """The lower bound moves up past them, the upper one is cut."""
    plan = cut(
        "2026-11-30 12:00:00.0000010",
        "2026-11-30 12:00:00.0000021",
        "9999-12-31 23:59:59.9999999",
        declared="datetime2(7)",
    )

    def at(microsecond: int) -> datetime:
        return datetime(2026, 11, 30, 12, 0, 0, microsecond)

    found = absent_ranges([ToldWave(n, Lsn.of_int(n + 1), (n,)) for n in range(4)], plan)
    last = datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert [(one.lower, one.upper) for one in found] == [
        (None, at(1)),
        (at(1), at(2)),
        (at(3), last),
    ], "no key is surely above the last microsecond"


@pytest.mark.parametrize(
    ("declared", "bound", "value"),
    [
        ("bigint", "-5", -5),
        ("date", "2026-11-30", date(2026, 11, 30)),
        ("datetime", "2026-11-30T12:00:00.007", datetime(2026, 11, 30, 12, 0, 0, 7000)),
        ("smalldatetime", "2026-11-30T12:01:00.000", datetime(2026, 11, 30, 12, 1)),
    ],
)
def test_bounds_of_each_type(declared: str, bound: str, value: object) -> None:
    (found,) = absent_ranges([ToldWave(0, FIRST, (0,))], cut(bound, declared=declared))
    assert found == AbsentRange(None, value, FIRST)  # type: ignore[arg-type]


def test_there_is_a_limit_to_ranges() -> None:
    """More become fewer, each at the lowest of its stamps: what is older is gone for sure."""
    count = ABSENT_RANGES_MAX * 3 + 1
    plan = cut(*(str(n * 10) for n in range(1, count)))
    found = absent_ranges([ToldWave(n, Lsn.of_int(n + 1), (n,)) for n in range(count)], plan)
    assert len(found) <= ABSENT_RANGES_MAX
    assert found[0] == AbsentRange(None, 40, Lsn.of_int(1))
    assert found[-1].upper is None
    assert all(a.upper == b.lower for a, b in itertools.pairwise(found))


def test_only_a_key_with_one_order_everywhere_is_deleted_by_range() -> None:
    columns = (ID, Column("at", "TIMESTAMP"), Column("word", "STRING"), Column("n", "DECIMAL(9,0)"))
    own = ("id",)

    def found(keys: tuple[str, ...], of: tuple[str, ...], plan: ChunkRanges) -> Column | None:
        return range_key(keys, of, plan, columns, {"ident": "id"})

    assert found(own, own, cut()) == ID
    assert found(own, own, ChunkRanges(("ident",), (KeyType("int"),), {})) == ID
    assert found(own, ("id", "at"), cut()) is None, "another index"
    assert found(("id", "at"), ("id", "at"), cut()) is None
    assert found(own, own, ChunkRanges(("word",), (KeyType("varchar(5)"),), {})) is None, "chosen"
    assert found(own, own, ChunkRanges((), (), {})) is None, "not cut"
    for name, declared in (("at", "datetimeoffset(7)"), ("word", "varchar(5)"), ("n", "decimal")):
        plan = ChunkRanges((name,), (KeyType(declared),), {})
        assert found((name,), (name,), plan) is None
