"""Generated statements: a model's answer, or the number Microsoft documents, or an error at least.

Every statement comes from a seed and its index alone. A failure names both; one statement runs
again with `FUZZ_SEED=… FUZZ_INDEX=…`, and `FUZZ_STATEMENTS=50000` runs more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from cdc_assets.sandbox.results import SqlError
from cdc_assets_tests.sandbox.fuzz import (
    changes,
    check,
    invalid,
    mutations,
    queries,
    replay,
    tables,
)
from cdc_assets_tests.sandbox.fuzz.queries import Statement
from cdc_assets_tests.sandbox.harness import Client
from cdc_assets_tests.source import CONNECTION_VARIABLE

SEED = os.environ.get("FUZZ_SEED", "1")
STATEMENTS = int(
    os.environ.get("FUZZ_STATEMENTS", "200" if CONNECTION_VARIABLE in os.environ else "2000")
)
"""Fewer on a real server, where each waits for its answer."""

INDEX = os.environ.get("FUZZ_INDEX")
QUARTERS = 4
"""Parts of the queries, which are most of the work."""

STEPS = 12
"""Statements in one sequence of changes, at least."""

DATABASE = "shop.dbo."
"""How generated statements name the database in process."""

SHOWN = 5
"""Failures that a test lists."""


@dataclass(frozen=True)
class Fuzzed:
    """A server with the seed's tables, and the tables."""

    client: Client
    tables: dict[str, tables.Table]


@pytest.fixture(scope="module")
def fuzzed(shared: Client) -> Fuzzed:
    made = tables.build(SEED)
    shared.run("EXEC sys.sp_cdc_enable_db", *tables.script(made), *invalid.SETUP)
    return Fuzzed(shared, made)


def indices(share: float) -> range:
    """The indices of a test that runs this share of the statements."""
    if INDEX is not None:
        return range(int(INDEX), int(INDEX) + 1)
    return range(max(1, round(STATEMENTS * share)))


def run_all(kind: str, chosen: range, problem: Callable[[Random], str | None]) -> None:
    """Fail with the first few problems and how to see them again."""
    found = []
    for index in chosen:
        wrong = problem(Random(f"{SEED}:{kind}:{index}"))
        if wrong is not None:
            found.append(f"FUZZ_SEED={SEED} FUZZ_INDEX={index}: {wrong}")
    shown = "\n\n".join(found[:SHOWN])
    assert not found, f"{len(found)} of {len(chosen)}:\n{shown}"


@pytest.mark.sqlserver
@pytest.mark.parametrize("quarter", range(QUARTERS))
def test_queries_give_the_models_answer(fuzzed: Fuzzed, quarter: int) -> None:
    def problem(random: Random) -> str | None:
        made = queries.statement(random, fuzzed.tables)
        made = replace(made, text=made.text.replace(DATABASE, f"{fuzzed.client.database}.dbo."))
        wrong = check.problem(fuzzed.client, made)
        return None if wrong is None else f"{made.text}\n{wrong}"

    chosen = indices(0.6)
    run_all("queries", chosen if INDEX is not None else chosen[quarter::QUARTERS], problem)


@pytest.mark.sqlserver
def test_changes_leave_the_models_state(fuzzed: Fuzzed) -> None:
    def problem(random: Random) -> str | None:
        sequence = changes.Sequence(random).extend(STEPS)
        return replay.replay(fuzzed.client, sequence)

    run_all("changes", indices(0.15 / STEPS), problem)


def test_every_documented_error_comes_with_its_number(fuzzed: Fuzzed) -> None:
    wrong = []
    for number, text in invalid.all_statements():
        made = invalid.filled(Random(f"{SEED}:{text}"), number, text)
        found = refusal_problem(fuzzed.client, made)
        if found is not None:
            wrong.append(f"{made.text}\n{found}")
    assert not wrong, "\n\n".join(wrong)


def refusal_problem(client: Client, statement: Statement) -> str | None:
    """What is wrong with how a statement is refused."""
    try:
        results = client.results(statement.text)
    except SqlError as error:
        leave_transaction(client)
        if statement.errors and error.number not in statement.errors:
            return f"{error} instead of {sorted(statement.errors)}"
        return check.error_text_problem(error)
    except Exception as error:  # noqa: BLE001 - whatever escapes is the finding
        return f"escaped: {type(error).__name__}: {error}"
    leave_transaction(client)
    return f"no error of {sorted(statement.errors)}, but {str(results)[:200]}"


def leave_transaction(client: Client) -> None:
    if client.in_transaction():
        client.run("ROLLBACK")


def test_invalid_statements_are_refused(fuzzed: Fuzzed) -> None:
    def problem(random: Random) -> str | None:
        made = invalid.statement(random)
        wrong = refusal_problem(fuzzed.client, made)
        return None if wrong is None else f"{made.text}\n{wrong}"

    run_all("invalid", indices(0.1), problem)


def test_mutated_small_statements_give_the_models_answer_or_an_error(fuzzed: Fuzzed) -> None:
    def problem(random: Random) -> str | None:
        tokens = mutations.mutated(random, mutations.small(random))
        try:
            made = mutations.expected(tokens, fuzzed.tables["p"])
        except mutations.UnsureError:
            return None
        refused = made is None
        made = made or Statement(" ".join(tokens))
        judge = refusal_problem if refused else check.problem
        wrong = judge(fuzzed.client, made)
        return None if wrong is None else f"{made.text}\n{wrong}"

    run_all("small", indices(0.1), problem)


def test_mutated_large_statements_never_fail_inside(fuzzed: Fuzzed) -> None:
    def problem(random: Random) -> str | None:
        base = queries.statement(random, fuzzed.tables).text
        text = " ".join(mutations.mutated(random, mutations.tokens_of(base)))
        wrong = refusal_problem(fuzzed.client, Statement(text))
        if wrong is None or wrong.startswith("no error"):
            return None
        return f"{text}\n{wrong}"

    run_all("large", indices(0.05), problem)
