"""The public cases: `docs/public-cases.md` and the tests that name them, held together.

A test names a case (`B001`) in its docstring, or its module's does for all tests of the file.
`python -m cdc_assets_tests.cases` writes the page's last column anew from what it finds.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "public-cases.md"
NO_TEST = "not yet: a test"
_ID = re.compile(r"\bB\d{3}\b")
_RANGE = re.compile(r"\bB(\d{3})-B(\d{3})\b")
_ROW = re.compile(r"\| (B\d{3}) \| (.*) \| (.*) \|")


@dataclass(frozen=True)
class Row:
    """A case on the page; `rest` is what no test shows: another room, or why it cannot apply."""

    id: str
    fault: str
    tests: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        parts = [*(f"`{test}`" for test in self.tests), *([self.rest] if self.rest else [])]
        return f"| {self.id} | {self.fault} | {'<br>'.join(parts)} |"


def rows(page: str) -> list[Row]:
    """The page's rows, in their order."""
    found = []
    for case, fault, where in _ROW.findall(page):
        parts = where.split("<br>")
        tests = tuple(part.strip("`") for part in parts if part.startswith("`"))
        rest = " ".join(part for part in parts if part and not part.startswith("`"))
        found.append(Row(case, fault, tests, rest))
    return found


@functools.cache
def named(folder: Path = TESTS) -> Mapping[str, tuple[str, ...]]:
    """The tests that name each case, as `file::test` below the tests' folder."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        module = ast.parse(path.read_text())
        file = path.relative_to(folder).as_posix()
        inner: set[str] = set()
        for function in _tests(module):
            for case in sorted(_ids(ast.get_docstring(function))):
                inner.add(case)
                found[case].append(f"{file}::{function.name}")
        for case in sorted(_ids(ast.get_docstring(module)) - inner):
            found[case].append(file)
    return {case: tuple(tests) for case, tests in found.items()}


def _tests(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


def _ids(docstring: str | None) -> set[str]:
    """The cases of a text; `B030-B040` are none: a range names no case by its input."""
    return set(_ID.findall(_RANGE.sub("", docstring or "")))


def renewed(page: str) -> str:
    """The page with the tests as they are named now."""
    found = named()
    text = {row.id: str(_renewed(row, found.get(row.id, ()))) for row in rows(page)}
    lines = [text[line[2:6]] if _ROW.fullmatch(line) else line for line in page.splitlines()]
    return "\n".join(lines) + "\n"


def _renewed(row: Row, tests: tuple[str, ...]) -> Row:
    rest = row.rest.replace(NO_TEST, "") if tests else row.rest or NO_TEST
    return replace(row, tests=tests, rest=rest)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
