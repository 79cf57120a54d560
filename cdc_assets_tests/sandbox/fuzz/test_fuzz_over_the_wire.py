"""A part of the generated statements through a driver: the same answers, the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

import pytds
import pytest

from cdc_assets.sandbox.server import TdsServer
from cdc_assets_tests.sandbox.fuzz import check, invalid, queries, tables
from cdc_assets_tests.sandbox.fuzz.model import TICKS_PER_DAY
from cdc_assets_tests.sandbox.fuzz.queries import Statement
from cdc_assets_tests.sandbox.fuzz.test_fuzz import SEED, indices, run_all
from cdc_assets_tests.sandbox.harness import serving

_SHARE = 0.05


@dataclass(frozen=True)
class Wired:
    """A driver's connection, and the tables it reads."""

    connection: Any
    tables: dict[str, tables.Table]


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    made = tables.build(SEED)
    directory = tmp_path_factory.mktemp("fuzz")
    with serving(directory / "state") as server:
        client = server.client()
        client.run(*tables.script(made), *invalid.SETUP)
        with (
            TdsServer(server.engine, state_dir=directory / "wire") as listening,
            closing(
                pytds.connect(
                    "127.0.0.1",
                    port=listening.port,
                    user="sa",
                    password=server.engine.passwords["sa"],
                    database="shop",
                    autocommit=True,
                )
            ) as connection,
        ):
            yield Wired(connection, made)


def told(wired: Wired, statement: Statement) -> str | None:
    """What is wrong with what the driver says."""
    with closing(wired.connection.cursor()) as cursor:
        try:
            cursor.execute(statement.text)
            if statement.answer is None:
                return f"no error of {sorted(statement.errors)}"
            names = tuple(column[0] for column in cursor.description)
            rows = [tuple(map(_seen, row)) for row in cursor.fetchall()]
        except pytds.Error as error:
            number = getattr(error, "msg_no", None)
            expected = number in statement.errors or not (statement.errors or statement.answer)
            return None if expected else f"{number}: {error}"
    if names != statement.answer.names:
        return f"columns {names} instead of {statement.answer.names}"
    return check.rows_problem(rows, statement.answer)


def _seen(value: Any) -> Any:
    """A driver's value as the model has it."""
    if isinstance(value, datetime):
        since = value - datetime(1, 1, 1)
        return since.days * TICKS_PER_DAY + since.seconds * 10**7 + since.microseconds * 10
    return value


def test_queries_give_the_models_answer(wired: Wired) -> None:
    def problem(random: Random) -> str | None:
        made = queries.statement(random, wired.tables)
        wrong = told(wired, made)
        return None if wrong is None else f"{made.text}\n{wrong}"

    run_all("wire", indices(_SHARE), problem)


def test_invalid_statements_come_with_their_number(wired: Wired) -> None:
    def problem(random: Random) -> str | None:
        made = invalid.statement(random)
        wrong = told(wired, made)
        return None if wrong is None else f"{made.text}\n{wrong}"

    run_all("wire invalid", indices(_SHARE), problem)
