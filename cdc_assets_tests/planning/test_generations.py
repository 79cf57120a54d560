"""When a stream's checkpoint goes on, and when a new generation has to begin."""

from dataclasses import replace
from datetime import datetime

import pytest

from cdc_assets.errors import AnotherWriterError, CheckpointError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.generations import (
    Generation,
    Head,
    Progress,
    Writer,
    is_ours,
    next_number,
    why_anew,
)
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ChangeCommit, ChangeCounts, StreamMark

AT = datetime(2026, 1, 2, 3, 4, 5)


def offset(number: int) -> Offset:
    return Offset(Lsn.of_int(number), AT)


OURS = Generation(2, "ours", 7, offset(70))


def commit(batch_id: int, mark: StreamMark | None = None) -> ChangeCommit:
    counts = ChangeCounts(1, 0, 1, 0, offset(1).lsn, offset(1).lsn, AT, AT)
    start, end = offset(batch_id * 10), offset(batch_id * 10 + 10)
    return ChangeCommit("t#changes", batch_id, "bronze/t", start, end, counts, "arrow", (), mark)


def test_a_commit_names_its_stream_and_reads_back() -> None:
    ours = commit(8, StreamMark("ours", 2, 0))
    assert ChangeCommit.from_json(ours.to_json()) == ours
    synced = commit(8)
    assert ChangeCommit.from_json(synced.to_json()) == synced
    assert '"stream"' not in synced.to_json()
    later = ours.to_json().replace('"micro_batch"', '"added_later": 1, "micro_batch"')
    assert ChangeCommit.from_json(later) == ours


def test_a_generation_reads_back() -> None:
    assert Generation.from_json(OURS.to_json(), where="x") == OURS
    for broken in ("", "[]", '{"generation": 1}', OURS.to_json().replace("0x", "1x")):
        with pytest.raises(CheckpointError, match="cannot be read"):
            Generation.from_json(broken, where="x")


def own(version: int, end: int) -> Head:
    """An own stream's table, whose newest commit's entry is gone from the log."""
    return Head(version, None, end=offset(end), owns_id=True)


def test_the_checkpoint_goes_on_where_nobody_else_wrote() -> None:
    """B025."""
    assert why_anew(OURS, Progress(), Head(7, commit(7))) is None
    assert why_anew(OURS, Progress(4, offset(90)), Head(8, commit(8, Writer(OURS, 4).mark))) is None
    # Nobody else writes its transaction id, and the log tells of it no more.
    assert why_anew(OURS, Progress(4, offset(90), offset(90)), own(8, 90)) is None
    assert why_anew(OURS, Progress(5, offset(80), offset(90)), own(8, 90)) is None
    # Planned and in bronze, and Spark died before it said that it was done.
    assert why_anew(OURS, Progress(5, offset(80)), Head(9, commit(9, Writer(OURS, 5).mark))) is None


@pytest.mark.parametrize(
    ("generation", "progress", "head", "told"),
    [
        (None, Progress(), Head(None, None), "is new"),
        (None, Progress(), Head(7, commit(7)), "is not there"),
        (OURS, Progress(), Head(8, commit(8)), "another writer"),
        (OURS, Progress(), Head(8, None), "another writer"),
        (OURS, Progress(9), Head(8, commit(8, StreamMark("older", 2, 0))), "another writer"),
        (OURS, Progress(3), Head(8, commit(8, Writer(OURS, 4).mark)), "set back"),
        (OURS, Progress(), Head(8, commit(8, Writer(OURS, 0).mark)), "set back"),
        (OURS, Progress(), Head(7, commit(7), offset(71)), "lost"),
        (OURS, Progress(1, offset(90)), Head(7, commit(7), offset(91)), "lost"),
        (OURS, Progress(1, offset(90), offset(90)), own(8, 91), "set back"),
        (OURS, Progress(), own(8, 71), "set back"),
    ],
)
def test_a_new_generation_says_why(
    generation: Generation | None, progress: Progress, head: Head, told: str
) -> None:
    """B025."""
    reason = why_anew(generation, progress, head)
    assert reason is not None
    assert told in reason


def test_a_snapshot_below_the_checkpoint_is_no_reason() -> None:
    assert why_anew(OURS, Progress(1, offset(90)), Head(7, commit(7), offset(90))) is None


def test_numbers_go_on_from_what_either_knows() -> None:
    assert next_number(None, Head(None, None)) == 0
    assert next_number(None, Head(7, commit(7))) == 0
    assert next_number(OURS, Head(8, commit(8))) == 3
    assert next_number(None, Head(8, commit(8, StreamMark("gone", 5, 1)))) == 6


def test_a_writer_stops_at_what_is_not_its_own() -> None:
    """B162."""
    writer = Writer(OURS, 1)
    writer.check(7, commit(7), where="t")
    writer.check(8, commit(8, writer.mark), where="t")
    writer.check(8, commit(8, replace(writer.mark, micro_batch=0)), where="t")
    with pytest.raises(AnotherWriterError, match="batch 8"):
        writer.check(8, commit(8), where="t")
    assert not is_ours(OURS, 8, None, owns_id=False)
