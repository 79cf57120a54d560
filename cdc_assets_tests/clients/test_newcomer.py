"""A newcomer's path: the built wheel in an environment of its own, and nothing of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cdc_assets_tests.path.helpers import create_items
from cdc_assets_tests.serving import UNFINISHED, dagster_dev, until
from cdc_assets_tests.source import Project, Source

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
STEP_SECONDS_MAX = 240.0

pytestmark = pytest.mark.clients


def without_this_python() -> dict[str, str]:
    """This process's environment, as somebody has it who has nothing of this project."""
    ours = ("PYTHON", "VIRTUAL_ENV", "CDC_", "DAGSTER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def run(*words: str | Path, cwd: Path) -> str:
    """A command's output, with none of this environment's Python; it must succeed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=without_this_python(),
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_from_the_wheel_to_a_green_check(source: Source, tmp_path: Path) -> None:
    """`pip install`, `discover`, `doctor`, `dagster dev`, and the page's button for the job."""
    create_items(source)
    source.execute("UPDATE dbo.items SET note = 'a' WHERE id = 1")
    source.captured()
    wheels, python, folder = tmp_path / "dist", tmp_path / "venv" / "bin", tmp_path / "project"
    folder.mkdir()
    run(UV, "build", "--quiet", "--wheel", "--out-dir", wheels, ROOT, cwd=folder)
    (wheel,) = wheels.glob("*.whl")
    run(UV, "venv", "--quiet", "--python", sys.executable, python.parent, cwd=folder)
    run(UV, "pip", "install", "--quiet", "--python", python / "python", wheel, cwd=folder)
    Project(tmp_path, source).write()
    ca_file = source.server.ca_file
    trusted = ["--ca-file", ca_file] if ca_file else []
    command = [python / "cdc-assets", "discover", "sales", "--connection", "file:../source.odbc"]
    run(*command, *trusted, cwd=folder)
    written = yaml.safe_load((folder / "tables.yaml").read_text())
    assert written["databases"]["sales"]["tables"] == {"dbo_items": {}}
    run(python / "cdc-assets", "doctor", cwd=folder)
    with dagster_dev(python / "dagster", folder, without_this_python()) as page:
        job = page.launch("sales_sync_and_apply")
        until(lambda: page.status(job) not in UNFINISHED, "the end of the run")
        assert page.status(job) == "SUCCESS"
        found = until(lambda: page.check("sales/bronze/dbo_items", "no_gap"), "the check no_gap")
        assert found["success"], found
