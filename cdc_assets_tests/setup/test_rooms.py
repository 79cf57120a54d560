"""The rooms hold, and each contract turns red for the import that it is there to refuse."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")

REFUSED = {
    "rooms": ("lake/broken.py", "import cdc_assets.engines"),
    "sandbox-apart": ("sandbox/broken.py", "import cdc_assets.errors"),
    "sandbox-unknown": ("engines/broken.py", "import cdc_assets.sandbox"),
    "light": ("planning/broken.py", "import pyarrow"),
    "lake-without-source": ("lake/broken.py", "import arrow_odbc"),
    "spark-in-one-room": ("ingest/broken.py", "import pyspark"),
    "definitions-light": ("orchestration/broken.py", "import cdc_assets.lake"),
}


def lint(folder: Path, contract: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT, "--no-logo", "--no-cache", "--contract", contract],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("contract", REFUSED)
def test_a_contract_names_the_import_it_refuses(contract: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "cdc_assets", tmp_path / "cdc_assets", ignore=shutil.ignore_patterns("__pycache__")
    )
    place, line = REFUSED[contract]
    (tmp_path / "cdc_assets" / place).write_text(f"{line}\n")

    ended = lint(tmp_path, contract)

    assert ended.returncode == 1
    assert "1 broken" in ended.stdout
    assert place.removesuffix(".py").replace("/", ".") in ended.stdout


def test_every_contract_of_the_project_has_its_case() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert text.count("[[tool.importlinter.contracts]]") == len(REFUSED)


WITHOUT_SPARK = """
import sys
sys.modules |= dict.fromkeys(("pyspark", "py4j", "delta", "pandas"))
from cdc_assets import Applied, SqlServerCdcComponent, apply_changes
from cdc_assets import cli, definitions, finality, finalization
from cdc_assets.ingest import stream
try:
    stream.CdcStream
except Exception as error:
    print(error)
"""


def test_only_what_is_sparks_needs_spark() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stderr == ""
    assert "pip install 'cdc-assets[spark]'" in ended.stdout
