"""Runs a sequence of changes and compares counts, rows, output and the change table."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from cdc_assets.sandbox.results import RowCount, SqlError
from cdc_assets_tests.sandbox.fuzz.changes import DEFINITION, Change, Sequence, Step
from cdc_assets_tests.sandbox.fuzz.check import error_text_problem
from cdc_assets_tests.sandbox.harness import Client, captured, recorded


def replay(client: Client, sequence: Sequence) -> str | None:
    """What went wrong on the way, or in the end."""
    client.run("DROP TABLE IF EXISTS changed", DEFINITION)
    captured(client, "changed")
    for number, step in enumerate(sequence.steps):
        wrong = _step(client, step)
        if wrong is not None:
            if client.in_transaction():
                client.run("ROLLBACK")
            return f"step {number}: {step.text}: {wrong}"
    rows = {row[0]: row for row in client.rows("SELECT id, a, s, d FROM changed")}
    if rows != sequence.rows:
        return f"rows {rows} instead of {sequence.rows}"
    wanted = [
        _essential([change for statement in commit for change in statement])
        for commit in sequence.commits
    ]
    recorded(client, sum(map(len, wanted)), "dbo_changed")
    return _recorded(client, [commit for commit in wanted if commit])


def _step(client: Client, step: Step) -> str | None:
    try:
        results = client.results(step.text)
    except SqlError as error:
        if error.number not in step.errors:
            return f"{error} instead of {sorted(step.errors)}"
        return error_text_problem(error)
    if step.errors:
        return f"no error of {sorted(step.errors)}"
    if step.count is None:
        return None
    counts = [result.rows for result in results if isinstance(result, RowCount)]
    if step.output is None and counts != [step.count]:
        return f"counts {counts} instead of {step.count}"
    told = client.value("SELECT @@ROWCOUNT")
    if told != step.count:
        return f"@@ROWCOUNT {told} instead of {step.count}"
    sets = [result[1] for result in results if isinstance(result, tuple)]
    wanted = [] if step.output is None else [sorted(step.output, key=repr)]
    if [sorted(rows, key=repr) for rows in sets] != wanted:
        return f"output {sets} instead of {wanted}"
    return None


def _recorded(client: Client, wanted: list[list[Change]]) -> str | None:
    """Commit by commit the changes; an update that changes nothing may be left out."""
    found = client.rows(
        "SELECT [__$start_lsn], [__$operation], id, a, s, d, [__$seqval] FROM cdc.dbo_changed_CT "
        "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    )
    got = [
        _essential([(row[1], row[2:6]) for row in rows])
        for _, rows in groupby(found, key=lambda row: row[0])
    ]
    got = [commit for commit in got if commit]
    if got != wanted:
        return f"changes {got} instead of {wanted}"
    return None


def _essential(changes: list[Any]) -> list[Change]:
    """The changes without pairs that change nothing, in an order of their own."""
    kept: list[Change] = []
    before = [row for kind, row in changes if kind == 3]
    after = [row for kind, row in changes if kind == 4]
    same = [row for row in before if row in after]
    for kind, row in changes:
        if not (kind in (3, 4) and row in same):
            kept.append((kind, tuple(row)))  # type: ignore[arg-type]
    return sorted(kept, key=repr)
