"""An alert tells each change once, and of what could not be told what is left of it."""

from __future__ import annotations

import json

import pytest

from cdc_assets.planning.alerts import (
    TABLES_NAMED_MAX,
    TEXT_LENGTH_MAX,
    Change,
    Kind,
    Subject,
    Trouble,
    changes,
    document,
    told_after,
)

TABLES = ["a", "b"]
LATE = Subject(Kind.CHECK, "finalized", "a")
SYNC = Subject(Kind.JOB, "sales_sync", "a")
STOPPED = Trouble("capture_stopped", "It has stopped.")


def test_red_is_told_once_and_green_once() -> None:
    told: dict[Subject, str] = {}
    found = []
    for wrong in ({LATE: STOPPED}, {LATE: STOPPED}, {}, {}):
        sent = list(changes(wrong, told, TABLES))
        told = told_after(told, sent, TABLES)
        found.append(sent)
    assert found == [
        [Change(LATE, STOPPED, None)],
        [],
        [Change(LATE, None, "capture_stopped")],
        [],
    ]


def test_what_was_not_delivered_stays_to_be_told() -> None:
    assert list(changes({LATE: STOPPED}, told_after({}, [], TABLES), TABLES))
    assert not list(changes({}, told_after({}, [], TABLES), TABLES)), "it is over, and nobody knew"


def test_a_run_that_fails_for_another_reason_is_told_and_a_check_is_not() -> None:
    other = Trouble("sync_stopped", "")
    assert not list(changes({LATE: other}, {LATE: "capture_stopped"}, TABLES))
    (found,) = changes({SYNC: other}, {SYNC: "capture_stopped"}, TABLES)
    assert found == Change(SYNC, other, "capture_stopped")


@pytest.mark.parametrize("reason", ["never_loaded", "paused"])
def test_what_is_meant_to_be_red_has_not_turned_so(reason: str) -> None:
    never = Trouble(reason, "")
    assert not list(changes({LATE: never}, {}, TABLES))
    assert not list(changes({LATE: never}, {LATE: "capture_stopped"}, TABLES))


def test_a_removed_table_is_forgotten_and_its_job_goes_on() -> None:
    told = {LATE: "capture_stopped", SYNC: "data_loss"}
    (found,) = changes({}, told, ["b"])
    assert found.subject == SYNC
    assert told_after(told, [], ["b"]) == {SYNC: "data_loss"}


def test_a_server_that_is_down_is_one_line() -> None:
    tables = [f"t{n:03}" for n in range(100)]
    down = Trouble("connection", "Nobody answers.")
    sent = [Change(Subject(Kind.JOB, "sales_sync", table), down, None) for table in tables]
    sent.append(Change(LATE, None, "sync_stopped"))
    found = document("sales", sent, "docs/runbook.md")
    red, green = found["text"].splitlines()
    assert red == (
        "RED sales: job sales_sync of t000, t001, t002, t003, t004"
        f" and {100 - TABLES_NAMED_MAX} more [connection]: Nobody answers."
    )
    assert green == "GREEN sales: check finalized of a is well again."
    assert [(c["state"], len(c["tables"])) for c in found["changes"]] == [
        ("red", 100),
        ("green", 1),
    ]
    assert found["changes"][0]["runbook"] == "docs/runbook.md#connection"
    json.dumps(found)


def test_texts_are_bounded() -> None:
    long = Trouble("x", "y" * 10 * TEXT_LENGTH_MAX)
    (told,) = document("sales", [Change(LATE, long, None)], "")["changes"]
    assert len(told["text"]) == len(long.cut().text) == TEXT_LENGTH_MAX
