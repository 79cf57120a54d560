"""What is marked `sqlserver` speaks to any server: nothing in it is the sandbox's alone."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cdc_assets.sandbox.engine.adminprocedures import PROCEDURES
from cdc_assets_tests.sandbox.test_process import running
from cdc_assets_tests.source import CONNECTION_VARIABLE

TESTS = Path(__file__).parents[1]
SELECTED = (
    "sandbox/engine/test_describing.py",
    "sandbox/engine/test_errors.py::test_errors_and_results_come_in_order",
    "sandbox/engine/test_errors.py::test_some_errors_end_the_batch",
    "sandbox/engine/test_capture.py::test_operations_and_images",
    "sandbox/engine/test_zones.py",
    "path/test_privileges.py::test_both_grants_missing_are_named_at_once",
)
RUN_SECONDS_MAX = 120.0
ALONE = re.compile(
    rf"sandbox\.({'|'.join(PROCEDURES)})\b|\b40515\b|\bengine_server\b"
    r"|\.session\.|\.engine\.(store|capture|counters)\b|[\[ .\"']shop\b"
)
"""Its procedures, its refusals, its fixtures, its insides, its database."""


def marked(node: ast.FunctionDef, mark: str) -> bool:
    return any(f"mark.{mark}" in ast.unparse(decorator) for decorator in node.decorator_list)


def portable(text: str) -> Iterator[ast.FunctionDef]:
    """A module's functions that run on a real server."""
    body = ast.parse(text).body
    whole = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and "mark.sqlserver" in ast.unparse(node.value)
        for node in body
    )
    for node in body:
        if not isinstance(node, ast.FunctionDef) or marked(node, "sandbox"):
            continue
        if whole or marked(node, "sqlserver"):
            yield node


def test_what_is_marked_needs_no_sandbox() -> None:
    wrong, count = [], 0
    for path in sorted(TESTS.rglob("test_*.py")):
        for function in portable(path.read_text()):
            count += function.name.startswith("test_")
            statements = [ast.unparse(statement) for statement in function.body]
            for found in ALONE.finditer("\n".join([ast.unparse(function.args), *statements])):
                wrong.append(f"{path.relative_to(TESTS)} {function.name}: {found.group()}")
    assert not wrong, "\n".join(wrong)
    assert count > 150


def test_marked_tests_hold_through_the_wire(tmp_path: Path) -> None:
    """As `make test-sqlserver` runs them, against a sandbox that says nothing of being one."""
    with running(tmp_path / "state", "--capture-interval", "0.1"):
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "sqlserver", "-p", "no:cacheprovider"]
            + [str(TESTS / name) for name in SELECTED],
            env={
                **os.environ,
                CONNECTION_VARIABLE: (tmp_path / "state" / "sales.admin.odbc").read_text().strip(),
                "SSL_CERT_FILE": str(tmp_path / "state" / "ca.pem"),
            },
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None
    assert int(passed.group(1)) > 20
    assert "skipped" not in ended.stdout
