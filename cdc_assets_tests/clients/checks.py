"""The checks of expected.json through a DB-API driver: each gives what it saw."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets_tests.clients.drivers import Driver, canonical
from cdc_assets_tests.clients.stacks import EXPECTED, Place

_MARKS = re.compile(r"\{\d\}")
_PLAIN_ROWS = "SELECT 1"


@dataclass(frozen=True)
class Checks:
    """One method a check, named as in expected.json."""

    place: Place
    driver: Driver
    stranger: str
    """The file of a CA that did not sign the server's certificate."""

    # --- logins ------------------------------------------------------------------------------

    def login_with_verified_tls(self) -> Any:
        with self._cursor() as cursor:
            rows = _read(cursor, _PLAIN_ROWS)
        try:
            # Another database: a pool would hand out the connection that is open already.
            self.driver.connect(self.place, ca_file=self.stranger, database="master").close()
        except self.driver.refusals as error:
            refused = "certificate verify failed" in str(error)
        else:
            refused = False
        return {"rows": rows, "refused_without_the_ca": refused}

    def login_without_tls(self) -> Any:
        with self._cursor(tls=False) as cursor:
            return {"rows": _read(cursor, _PLAIN_ROWS)}

    def wrong_password(self) -> Any:
        user = self.place.administrator[0]
        login = (user, EXPECTED["wrong_password"]["password"])
        seen = self._refusal(lambda: self.driver.connect(self.place, login=login).close())
        named = f"Login failed for user '{user}'." in seen["text"]
        number = seen.get("number", EXPECTED["wrong_password"]["number"])
        return {"number": number if named else seen["text"]}

    # --- values ------------------------------------------------------------------------------

    def types(self) -> Any:
        case = EXPECTED["types"]
        names = ", ".join(column["name"] for column in case["columns"])
        with self._cursor() as cursor:
            cursor.execute(f"SELECT c_rowversion, {names} FROM {case['table']} ORDER BY id")
            rows = cursor.fetchall()
        return {
            "rows": [
                [_of(column, value) for column, value in zip(case["columns"], row[1:], strict=True)]
                for row in rows
            ],
            "rowversions": [canonical(row[0]) for row in rows],
        }

    def text_of_types(self) -> Any:
        case = EXPECTED["types"]
        texts = ", ".join(column["text"] for column in case["columns"] if "text" in column)
        with self._cursor() as cursor:
            return _read(cursor, f"SELECT {texts} FROM {case['table']} ORDER BY id")

    def nulls(self) -> Any:
        case = EXPECTED["nulls"]
        with self._scratch("nulls") as (cursor, table):
            self._execute(cursor, case["insert"], case["values"], table)
            (row,) = _read(cursor, case["read"].replace("{table}", table))
            return row

    def unicode(self) -> Any:
        case = EXPECTED["unicode"]
        seen = []
        with self._scratch("unicode") as (cursor, table):
            for number, one in enumerate(case["texts"]):
                self._execute(cursor, case["insert"], [number, one["text"]], table)
                self._execute(cursor, case["read"], [number], table)
                read = [canonical(value) for value in cursor.fetchone()]
                ((literal,),) = _read(cursor, case["literal"].replace("{text}", one["text"]))
                seen.append({"read": read, "literal": literal})
        return seen

    def long_text(self) -> Any:
        case = EXPECTED["long_text"]
        seen = []
        with self._scratch("long_text") as (cursor, table):
            for length in case["characters"]:
                self._execute(
                    cursor, case["insert"], [length, (case["unit"] * length)[:length]], table
                )
                self._execute(cursor, case["read"], [length], table)
                seen.append([canonical(value) for value in cursor.fetchone()])
        return seen

    # --- statements ----------------------------------------------------------------------------

    def parameters(self) -> Any:
        case = EXPECTED["parameters"]
        with self._cursor() as cursor:
            self._execute(cursor, case["sql"], case["values"])
            values = zip(cursor.fetchone(), case["kinds"], strict=True)
            return [canonical(value, kind, case["scale"]) for value, kind in values]

    def prepared_twice(self) -> Any:
        case = EXPECTED["prepared_twice"]
        runs = [run["values"] for run in case["runs"]]
        with contextlib.closing(self.driver.connect(self.place)) as connection:
            found = self.driver.prepared(connection, self._marked(case["sql"]), runs)
            return [_texts(rows) for rows in found]

    def several_result_sets(self) -> Any:
        sets, columns = [], []
        with self._cursor() as cursor:
            cursor.execute(EXPECTED["several_result_sets"]["sql"])
            more: Any = True
            while more:
                columns.append([column[0] for column in cursor.description])
                sets.append(_texts(cursor.fetchall()))
                more = cursor.nextset()
        return {"sets": sets, "columns": columns}

    def row_counts(self) -> Any:
        seen = []
        with self._scratch("row_counts") as (cursor, table):
            for case in EXPECTED["row_counts"]:
                cursor.execute(case["sql"].replace("{table}", table))
                seen.append(cursor.rowcount)
        return seen

    # --- transactions, errors, cancel ------------------------------------------------------------

    def commit(self) -> Any:
        return self._transaction("commit")

    def rollback(self) -> Any:
        return self._transaction("rollback")

    def errors(self) -> Any:
        case = EXPECTED["errors"]
        return [self._error(one, case["then"]["sql"]) for one in case["cases"]]

    def cancel(self) -> Any:
        case = EXPECTED["cancel"]
        return [self._cancelled(sql, case) for sql in case["statements"]]

    def _transaction(self, end: str) -> Any:
        case = EXPECTED["transactions"]
        with self._scratch(end) as (outside, table):
            read = case["read"].replace("{table}", table)
            with contextlib.closing(self.driver.connect(self.place, autocommit=False)) as writer:
                cursor = writer.cursor()
                for statement in case["statements"]:
                    cursor.execute(statement.replace("{table}", table))
                inside = _read(cursor, read)
                cursor.close()
                getattr(writer, end)()
                return {"inside": inside, "after": _read(outside, read)}

    def _error(self, one: dict[str, Any], then: str) -> Any:
        with self._cursor(login=getattr(self.place, one["login"])) as cursor:
            seen = self._refusal(lambda: _all(cursor, one["sql"]))
            return {"name": one["name"], **seen, "then": _read(cursor, then)}

    def _cancelled(self, sql: str, case: dict[str, Any]) -> Any:
        with self.driver.cancelled(self.place, case["after_seconds"]) as (connection, cursor):
            began = time.monotonic()
            try:
                _all(cursor, sql)
            except (self.driver.error, TimeoutError):
                cancelled = True
            else:
                cancelled = False
            seconds = time.monotonic() - began
            with contextlib.closing(connection.cursor()) as again:
                then = _read(again, case["then"]["sql"])
        return {"cancelled": cancelled, "seconds": seconds, "then": then}

    # --- common ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _cursor(self, **how: Any) -> Iterator[Any]:
        with contextlib.closing(self.driver.connect(self.place, **how)) as connection:
            cursor = connection.cursor()
            try:
                yield cursor
            finally:
                cursor.close()

    @contextlib.contextmanager
    def _scratch(self, check: str) -> Iterator[tuple[Any, str]]:
        """A cursor and a table of the check's own."""
        table = f"dbo.[{self.driver.name} {check}]"
        with self._cursor() as cursor:
            cursor.execute(EXPECTED["scratch"]["create"].replace("{table}", table))
            yield cursor, table

    def _marked(self, sql: str) -> str:
        return _MARKS.sub(self.driver.mark, sql)

    def _execute(self, cursor: Any, sql: str, values: Sequence[Any], table: str = "") -> None:
        cursor.execute(self._marked(sql.replace("{table}", table)), tuple(values))

    def _refusal(self, run: Callable[[], Any]) -> dict[str, Any]:
        try:
            run()
        except self.driver.error as error:
            return self.driver.seen(error)
        return {"text": "no error"}


def _of(column: dict[str, Any], value: Any) -> str | None:
    return canonical(value, column["kind"], column.get("scale", 0), column.get("digits", 0))


def _texts(rows: Sequence[Any]) -> list[list[str | None]]:
    return [[canonical(value) for value in row] for row in rows]


def _read(cursor: Any, sql: str) -> list[list[str | None]]:
    cursor.execute(sql)
    return _texts(cursor.fetchall())


def _all(cursor: Any, sql: str) -> None:
    """A batch to its end: an error may come after its first result set."""
    cursor.execute(sql)
    more: Any = True
    while more:
        if cursor.description is not None:
            cursor.fetchall()
        more = cursor.nextset()
