"""What README and docs/ tell to run is run, and their links lead somewhere."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from cdc_assets.sandbox.workload.tables import CREATE, TABLES
from cdc_assets_tests.cli.conftest import Commands
from cdc_assets_tests.setup.following import SETTINGS_MARK, UNTIL_CTRL_C, Follower
from cdc_assets_tests.setup.pages import (
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    ci_steps,
    links,
    name_of,
)
from cdc_assets_tests.source import Project, Source

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

QUICKSTART = "docs/quickstart.md"
PYTHON_PAGES = ("README.md", "docs/finality.md", "docs/how-to/read-silver.md")
"""Pages whose Python needs nothing but a lake; of the others it is shown, and tested elsewhere."""
OF_VERDICTS = ("cdc-assets status", "cdc_assets.finality")
"""A page that has these wants tables with a verdict."""
FINAL_SECONDS_MAX = 60.0

ROWS = (
    "INSERT dbo.customer VALUES (1, N'Ann', N'retail', N'Peru', NULL, 1.50, 1, '2026-01-01')",
    "INSERT dbo.orders (order_id, customer_id, status, total_price, order_date, priority, clerk,"
    " created_at) VALUES (1, 1, N'O', 9.75, '2026-01-02', N'1-URGENT', N'Bo', '2026-01-02'),"
    " (2, 1, N'F', 3.25, '2026-01-03', N'5-LOW', N'Cy', '2026-01-03')",
    "INSERT dbo.lineitem VALUES (1, 1, 7, 2, 9.75, 0.05, N'N', NULL, N'RAIL', NULL),"
    " (2, 1, 8, 1, 3.25, 0, N'N', '2026-01-05', N'AIR', NULL)",
)
CHANGE = "UPDATE dbo.customer SET account_balance = account_balance + 1 WHERE customer_id = 1"
"""Of a table that no page changes: two writers of one row would be in each other's way."""


def followed(page: Path) -> list[Block]:
    """The blocks of a page that a test follows."""
    kinds = {"sh", "tsql"} | ({"python"} if name_of(page) in PYTHON_PAGES else set())
    return [
        block
        for block in blocks(page)
        if not block.is_left_out and (block.kind in kinds or block.text.startswith(SETTINGS_MARK))
    ]


FOLLOWED = [page for page in PAGES if followed(page)]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(monkeypatch, capfd)


@pytest.fixture
def folder(source: Source, tmp_path: Path) -> Path:
    """A folder beside a source that has the workload's tables, with few rows, as the sandbox's."""
    source.execute(*CREATE, *ROWS)
    for table in TABLES:
        source.enable(table)
    state = tmp_path / ".cdc" / "sandbox"
    state.mkdir(parents=True)
    (state / "sales.odbc").write_text(source.server.text(source.name))
    assert source.server.ca_file is not None
    shutil.copy(source.server.ca_file, state / "ca.pem")
    return tmp_path


@pytest.fixture
def reader(
    folder: Path, source: Source, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> Follower:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CDC_TABLES", raising=False)
    return Follower(folder, source, commands)


def load(reader: Follower, *, is_final: bool) -> None:
    """The settings that the pages speak of, loaded; until their first period is complete."""
    tables = {f"dbo_{table}": None for table in TABLES}
    database = {
        "connection": "file:.cdc/sandbox/sales.odbc",
        "ca_file": ".cdc/sandbox/ca.pem",
        "lake": "lake",
        "defaults": {"engine": "arrow", "finality": {"granularity": "second"}},
        "tables": tables,
    }
    (reader.folder / "tables.yaml").write_text(yaml.safe_dump({"databases": {"sales": database}}))
    deadline = time.monotonic() + FINAL_SECONDS_MAX
    while True:
        ended = reader.commands.run("sync", "sales", "--json")
        assert ended.code == 0, ended.err
        told = ended.document["tables"]
        if not is_final or all(table["complete_until"] for table in told):
            return
        assert time.monotonic() < deadline
        reader.source.execute(CHANGE)


@contextmanager
def changing(source: Source) -> Iterator[None]:
    """A source that changes meanwhile, as that of `cdc-assets sandbox --rate 2` does."""
    ended = threading.Event()

    def change() -> None:
        while not ended.wait(0.5):
            source.execute(CHANGE)

    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        try:
            yield
        finally:
            ended.set()
        changes.result()


def assert_all_is_right(reader: Follower) -> None:
    """After one more sync silver is the source: each column and row of each table."""
    settings = yaml.safe_load((reader.folder / "tables.yaml").read_text())
    project = Project(reader.folder, reader.source, tables=settings["databases"]["sales"]["tables"])
    ended = reader.commands.run("sync", "sales")
    assert ended.code == 0, ended.err
    for table in project.tables:
        name = table.removeprefix("dbo_")
        columns = reader.source.rows(
            f"SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.{name}')"
        )
        project.assert_identical(table, [column for (column,) in columns])


@pytest.mark.parametrize("page", [p for p in FOLLOWED if name_of(p) != QUICKSTART], ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, reader: Follower) -> None:
    found = followed(page)
    load(reader, is_final=any(word in block.text for block in found for word in OF_VERDICTS))
    with changing(reader.source):
        reader.follow(found)
    assert_all_is_right(reader)
    if reader.lacking:
        pytest.skip(f"the rest ran; not installed: {', '.join(reader.lacking)}")


def test_the_quickstart_runs_from_an_empty_folder(reader: Follower) -> None:
    reader.in_shell = True
    with changing(reader.source):
        reader.follow(followed(ROOT / QUICKSTART))
    assert_all_is_right(reader)


def test_no_page_is_left_out_by_accident() -> None:
    how_to = {page for page in PAGES if page.parent.name == "how-to"}
    assert len(how_to) > 5
    assert how_to <= set(FOLLOWED)
    assert {ROOT / "README.md", ROOT / QUICKSTART} <= set(FOLLOWED)


def test_make_in_a_block_is_what_ci_runs() -> None:
    """Or it is `cdc-assets up`, which `cli/test_demo.py` runs."""
    lines = [
        line for page in FOLLOWED for block in followed(page) for line in block.text.splitlines()
    ]
    called = {line.partition("#")[0].strip() for line in lines if line.startswith("make ")}
    assert called <= {*ci_steps(), *UNTIL_CTRL_C}
    assert "make demo" in called


def test_no_command_hides_in_a_block_of_another_language() -> None:
    """Nobody would run it."""
    hidden = re.compile(r"(?m)^\s*(\$ )?(cdc-assets|make|docker|kubectl|helm|pip) ")
    for page in PAGES:
        for block in blocks(page):
            assert block.kind not in ("bash", "shell", "console"), block
            assert block.kind == "sh" or not hidden.search(block.text), block


def test_every_link_and_image_leads_somewhere() -> None:
    for page in PAGES:
        for target in links(page):
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            assert there.exists(), f"{name_of(page)}: {target}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors(there), f"{name_of(page)}: {target}"


def test_every_page_is_reached_from_the_readme() -> None:
    found, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page not in found:
            found.add(page)
            files = [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
            left += [file for file in files if file.suffix == ".md"]
    assert [name_of(page) for page in PAGES if page not in found] == []
