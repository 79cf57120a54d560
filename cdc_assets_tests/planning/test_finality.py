"""What is final: never what is lost, or before the first snapshot, or what a reset gave up."""

import json
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from cdc_assets.contract import Event
from cdc_assets.lsn import Lsn
from cdc_assets.planning.finality import (
    Layer,
    Told,
    Verdict,
    bronze_verdict,
    history_verdict,
    silver_verdict,
)
from cdc_assets.planning.losses import Gap
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.verdict import Reason

NOON = datetime(2026, 11, 30, 12)
BRONZE = ControlRow(
    "bronze/t", finalized_until=NOON, end_commit_ts=NOON, table_id="b", changed_lsn=None
)
S = Lsn.of_int(10)
SILVER = ControlRow(
    "silver/t",
    finalized_until=NOON,
    applied_lsn=str(S),
    snapshot_lsn=str(S),
    verdict_version=7,
    table_id="s",
)


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def event(kind: Event, lsn: int, hours: float, **columns: Any) -> FactsRow:
    text = str(Lsn.of_int(lsn))
    return FactsRow(
        target="bronze/t",
        event=str(kind),
        min_lsn=text,
        max_lsn=text,
        max_commit_ts=at(hours),
        detail=json.dumps(columns.pop("detail", {})),
        **columns,
    )


def lost(kind: Event, lsn: int, start: float, end: float) -> FactsRow:
    return event(kind, lsn, end, lost_from_ts=at(start), lost_to_ts=at(end))


FIRST = event(Event.BOOTSTRAP, 10, -8.5)


def bronze(*events: FactsRow, row: ControlRow | None = BRONZE) -> Verdict:
    return bronze_verdict(Told("bronze/t", "/b", row, events))


def silver(
    *events: FactsRow, row: ControlRow | None = SILVER, of: ControlRow | None = BRONZE
) -> Verdict:
    return silver_verdict(Told("silver/t", "/s", row, events), of)


def test_a_period_that_meets_a_gap_is_not_final_in_bronze() -> None:
    verdict = bronze(FIRST, lost(Event.DATA_SKIPPED, 20, -4.5, -3))
    final = {hours: verdict.is_final(at(hours)) for hours in range(-9, 2)}
    # The first whole hour after the snapshot ends at -7; a commit at -3 may be lost.
    assert [hours for hours, yes in final.items() if yes] == [-7, -6, -5, -1, 0]
    assert not verdict.is_final(at(0), at(-7))
    assert verdict.is_final(at(0), at(-2.9))
    assert "1 gap" in verdict.text


def test_an_acknowledged_gap_is_still_a_gap() -> None:
    gap = lost(Event.DATA_SKIPPED, 20, -4.5, -3)
    known = replace(gap, event=str(Event.GAP_ACKNOWLEDGED), lost_from_ts=None, lost_to_ts=None)
    assert not bronze(FIRST, gap, known).is_final(at(-4))


def test_of_the_events_of_a_gap_the_last_says_where_it_ends() -> None:
    events = (FIRST, lost(Event.RECOVERING, 20, -4, -3), lost(Event.RESNAPSHOT, 25, -4, -2))
    assert [gap.end for gap in bronze(*events).lost] == [at(-2)]


def test_silver_lacks_what_is_lost_in_every_period_after() -> None:
    skipped = lost(Event.DATA_SKIPPED, 20, -4.5, -3)
    verdict = silver(FIRST, skipped)
    assert [hours for hours in range(-9, 2) if verdict.is_final(at(hours))] == [-9, -8, -7, -6, -5]
    later = str(Lsn.of_int(21))
    healed = silver(
        FIRST,
        skipped,
        event(Event.RESNAPSHOT, 21, -2),
        row=replace(SILVER, snapshot_lsn=later, applied_lsn=later),
    )
    assert (healed.lost, healed.hold, healed.is_final(at(0))) == ((), None, True)


def test_the_snapshot_that_heals_a_gap_has_to_be_in_silver() -> None:
    gap = lost(Event.RESNAPSHOT, 25, -4, -2)
    verdict = silver(FIRST, gap)
    assert (verdict.hold, verdict.is_final(at(-3)), verdict.is_final(at(-4))) == (
        Reason.BEHIND_BRONZE,
        False,
        True,
    )
    rebuilt = replace(SILVER, snapshot_lsn=gap.max_lsn, applied_lsn=gap.max_lsn)
    assert silver(FIRST, gap, row=rebuilt).is_final(at(0))


def history(*events: FactsRow, snapshot: int) -> Verdict:
    lsn = str(Lsn.of_int(snapshot))
    row = replace(SILVER, table_name="history/t", snapshot_lsn=lsn, applied_lsn=lsn)
    return history_verdict(Told("history/t", "/h", row, events), BRONZE)


def final_hours(verdict: Verdict) -> list[int]:
    return [hours for hours in range(-9, 2) if verdict.is_final(at(hours))]


def test_a_history_lacks_what_is_lost_up_to_the_snapshot_that_healed_it() -> None:
    """What ended in the gap ends at the snapshot: a state holds too long until then."""
    first, skipped = event(Event.BOOTSTRAP, 10, -8.5), lost(Event.DATA_SKIPPED, 20, -5.5, -5)
    assert final_hours(history(first, skipped, snapshot=10)) == [-7, -6]
    healed = history(first, skipped, event(Event.RESNAPSHOT, 21, -2.5), snapshot=21)
    assert final_hours(healed) == [-7, -6, -1, 0]
    assert (healed.lost, [gap.end for gap in healed.healed]) == ((), [at(-2.5)])
    assert "1 gap" in healed.text
    reread = history(first, lost(Event.RESNAPSHOT, 25, -4, -2), snapshot=25)
    assert final_hours(reread) == [-7, -6, -5, -4, 0]
    not_taken = history(first, lost(Event.RESNAPSHOT, 25, -4, -2), snapshot=10)
    assert (final_hours(not_taken), not_taken.hold) == ([-7, -6, -5, -4], Reason.BEHIND_BRONZE)
    assert "The history is behind bronze" in not_taken.text


def test_a_history_begins_at_the_first_snapshot_that_was_completed() -> None:
    opened = event(Event.SNAPSHOT_OPEN, 10, -8, detail={"mode": "chunked"})
    assert history(opened, event(Event.BOOTSTRAP, 15, -6), snapshot=15).begins == at(-6)
    assert history(lost(Event.RESNAPSHOT, 25, -4, -2), snapshot=25).begins == at(-2)


def test_the_gaps_of_all_tables_where_nobody_knows_the_bronze() -> None:
    """A reset of another table takes no gap from them."""
    skipped = lost(Event.DATA_SKIPPED, 20, -4.5, -3)
    reset = replace(event(Event.RESET, 30, 0), target="bronze/other")
    told = Told("/gold", "/gold", SILVER, (FIRST, skipped, reset), is_of_all=True)
    verdict = silver_verdict(told, None)
    assert final_hours(verdict) == [-9, -8, -7, -6, -5]
    assert (verdict.hold, "name its bronze" in verdict.text) == (None, True)
    rebuilt = replace(told, row=replace(SILVER, snapshot_lsn=str(Lsn.of_int(21))))
    assert silver_verdict(rebuilt, None).is_final(at(0))


def test_what_holds_silver_is_told_with_its_version() -> None:
    verdict = silver(FIRST)
    assert (verdict.hold, verdict.verdict_version, verdict.finalized_until) == (None, 7, NOON)
    opened = event(Event.SNAPSHOT_OPEN, 30, -1, detail={"mode": "chunked", "kind": "resnapshot"})
    held = silver(FIRST, opened)
    assert (held.hold, held.is_final(at(0))) == (Reason.SNAPSHOT_OPEN, True)
    assert "in chunks" in held.text


def test_the_changes_of_a_chunked_snapshot_begin_at_its_open() -> None:
    opened = event(Event.SNAPSHOT_OPEN, 10, -5.5, detail={"mode": "chunked"})
    assert bronze(opened).begins == at(-5.5)
    whole = event(Event.SNAPSHOT_OPEN, 10, -5.5, detail={"mode": "full"})
    assert bronze(whole).begins is None
    assert bronze(opened, event(Event.BOOTSTRAP, 10, -5.5)).begins == at(-5.5)


def test_a_table_that_was_read_anew_first_began_nobody_knows_when() -> None:
    verdict = bronze(lost(Event.RESNAPSHOT, 25, -4, -2))
    assert (verdict.begins, verdict.is_final(at(-20))) == (None, True)


def test_what_a_reset_gave_up_has_no_verdict() -> None:
    """Control is written after the event, so its row may still have one."""
    reset = event(Event.RESET, 30, 0, detail={"bronze": "b", "silver": "s"})
    for verdict in (bronze(FIRST, reset), silver(FIRST, reset)):
        assert (verdict.finalized_until, verdict.hold) == (None, Reason.NEVER_LOADED)
        assert not verdict.is_final(at(-5))


def test_nothing_loaded_is_not_final() -> None:
    for verdict in (bronze(row=None), silver(row=None)):
        assert (verdict.is_final(at(-99)), verdict.hold) == (False, Reason.NEVER_LOADED)


def test_without_facts_the_text_says_what_is_not_known() -> None:
    verdict = bronze_verdict(Told("bronze/t", "/b", BRONZE, None))
    assert verdict.is_final(at(0))
    assert "no facts" in verdict.text


VERDICT = Verdict("silver/t", "/s", Layer.SILVER, NOON, None, "")


def test_times() -> None:
    east = timezone(timedelta(hours=2))
    assert VERDICT.is_final(datetime(2026, 11, 30, 14, tzinfo=east))
    assert not VERDICT.is_final(datetime(2026, 11, 30, 14, 0, 0, 1, tzinfo=east))


def test_times_of_pandas() -> None:
    pd = pytest.importorskip("pandas", reason="pandas comes with the extra `spark`")
    assert VERDICT.is_final(pd.Timestamp("2026-11-30T14:00:00+02:00"))
    assert not VERDICT.is_final(pd.Timestamp("2026-11-30T12:00:00.000000001"))
    with pytest.raises(ValueError, match="this is none"):
        VERDICT.is_final(pd.NaT)


@pytest.mark.parametrize(
    ("end", "kind"), [(date(2026, 11, 30), "date"), ("2026-11-30", "str"), (None, "NoneType")]
)
def test_what_is_no_time(end: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"not at a {kind}"):
        VERDICT.is_final(end)


def test_a_period_begins_before_its_end() -> None:
    with pytest.raises(ValueError, match="begins at"):
        VERDICT.is_final(NOON, NOON)


def test_a_gap_is_told_as_it_is_elsewhere() -> None:
    (gap,) = bronze(FIRST, lost(Event.DATA_SKIPPED, 20, -4.5, -3)).lost
    assert gap == Gap(at(-4.5), at(-3), Event.DATA_SKIPPED, str(Lsn.of_int(20)))
