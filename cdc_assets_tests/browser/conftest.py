"""The demo's data behind `cdc-assets up`, and a browser on its page.

Dagster keeps everything in Postgres here, so that the daemon and the page are tried on it.

The pictures of a run are kept in the folder that `CDC_TEST_PICTURES` names (docs/images has a
chosen few of them), else in pytest's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

from cdc_assets_tests.orchestration.postgres import running_postgres, with_postgres
from cdc_assets_tests.serving import COMMAND, Served, clean_environment, new_home, up

DEMO_SCALE = "0.02"
LATE_TABLE = "dbo_lineitem"
"""It is allowed a delay of seconds, so that it is soon late when capture stands still."""
SIZE = {"width": 1400, "height": 900}
PICTURE_BYTES_MAX = 200_000
OFFLINE = (
    # The page is on this machine, and nothing else is asked for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)

Take = Callable[[str], None]


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A project folder with `LATE_TABLE`, and Postgres for Dagster's storage.

    Pictures show its name, which is a short one.
    """
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        folder = new_home(Path(name))
        settings = yaml.safe_load((folder / "tables.yaml").read_text())
        tables = settings["databases"]["sales"]["tables"]
        late = {"granularity": "second", "allowed_delay": "30s"}
        tables[LATE_TABLE] = {**tables[LATE_TABLE], "finality": late}
        (folder / "tables.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        instance = folder / "dagster.yaml"
        instance.write_text(with_postgres(instance.read_text()))
        yield folder


@pytest.fixture(scope="session")
def served(home: Path) -> Iterator[Served]:
    """What `cdc-assets up` serves after `cdc-assets demo`."""
    with running_postgres() as postgres:
        environment = clean_environment(home, **postgres.environment())
        done = subprocess.run(
            [*COMMAND, "demo", "--scale", DEMO_SCALE],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with up(home, environment) as found:
            yield found
    assert not (home / ".cdc" / "dagster" / "history").exists(), "Dagster's SQLite was used"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium: the driver's own is not on any package registry."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=program, args=OFFLINE) as found,
    ):
        yield found


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A page that had no error of its own, and no answer that failed, when the test is over."""
    context = browser.new_context(
        base_url=served.address, viewport=SIZE, locale="en-US", timezone_id="UTC"
    )
    # Top to bottom, where a graph of few tables shows what is in its boxes.
    context.add_init_script("localStorage.setItem('asset-graph-direction', '\"vertical\"')")
    wrong: list[str] = []
    with context.new_page() as found:
        found.on("pageerror", lambda error: wrong.append(str(error)))
        found.on(
            "response",
            lambda answer: wrong.append(answer.url) if answer.status >= 500 else None,
        )
        yield found
    context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures are kept."""
    named = os.environ.get("CDC_TEST_PICTURES")
    return Path(named) if named else tmp_path_factory.mktemp("pictures")


@pytest.fixture
def take(page: Page, pictures: Path) -> Take:
    """Takes a picture of what the page shows, by its name."""

    def taken(name: str) -> None:
        picture = page.screenshot(path=pictures / f"{name}.png", animations="disabled")
        assert len(picture) < PICTURE_BYTES_MAX, f"{name}: {len(picture)} bytes"

    return taken
