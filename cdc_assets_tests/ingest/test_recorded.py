"""What a sync records while its tables work."""

from cdc_assets.errors import SourceQueryError
from cdc_assets.ingest.outcome import TableOutcome, Work
from cdc_assets.ingest.sync import _to_record


def test_an_outcome_holds_all_that_its_table_told() -> None:
    """Recorded beside it, a batch would stand twice in one commit of the facts."""
    early, done = TableOutcome("a", Work.CHANGES, rows=1), TableOutcome("a", Work.CHANGES, rows=2)
    told = {"a": early}
    assert _to_record(told, [done]) == [done]
    assert told == {}


def test_a_failure_and_a_table_at_work_leave_what_was_told() -> None:
    early = TableOutcome("a", Work.CHANGES, rows=1)
    failed = TableOutcome("a", Work.FAILED, error=SourceQueryError("it broke"))
    assert _to_record({"a": early}, [failed]) == [early, failed]
    assert _to_record({"a": early}, []) == [early]
