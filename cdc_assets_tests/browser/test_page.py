"""What a person sees of the demo in Dagster's page, in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from cdc_assets.cli.wire import wire
from cdc_assets.engines.database import Database
from cdc_assets.ingest.sync import sync
from cdc_assets.planning.verdict import Reason
from cdc_assets.quality.health import health
from cdc_assets.sandbox.workload.tables import DATABASE
from cdc_assets.settings import load_settings
from cdc_assets_tests.browser.conftest import LATE_TABLE, Take
from cdc_assets_tests.orchestration.test_runs import NUMBERS
from cdc_assets_tests.serving import Served, until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

TABLE = "dbo_orders"
TABLES = ("dbo_customer", "dbo_orders", "dbo_lineitem")
LAYERS = ("sqlserver", "bronze", "silver")
SENSORS = ("backfill_waves", "finality", "silver_waves", "source_moved")
KINDS = {"Microsoft SQL Server": 1, "Delta Lake": 2, "Bronze": 1, "Silver": 1}
QUIET = {"STARTED", "SKIPPED", "SUCCESS"}
PAGE_MS_MAX = 60_000

expect.set_options(timeout=PAGE_MS_MAX)


def shows_all(page: Page) -> None:
    """Wait until nothing of the page is still on its way."""
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text(re.compile("^Loading"))).to_have_count(0)


def test_the_asset_graph_shows_every_table_in_each_layer(page: Page, take: Take) -> None:
    groups = ["sales", *(f"sales/{layer}" for layer in LAYERS)]
    opened = ",".join(f"global@global:{group}" for group in groups)
    page.goto(f"/asset-groups?expanded={opened}")
    for table in TABLES:
        nodes = page.locator("svg").get_by_text(table, exact=True)
        expect(nodes).to_have_count(len(LAYERS))
    page.goto(f"/assets/sales/bronze/{TABLE}?view=lineage")
    for kind, count in KINDS.items():
        expect(page.get_by_text(kind, exact=True)).to_have_count(count)
    expect(page.get_by_text(re.compile(r"\d / \d Passed"))).to_have_count(len(LAYERS))
    shows_all(page)
    take("asset-graph")


def test_a_materialization_plots_its_numbers(page: Page, take: Take) -> None:
    page.goto(f"/assets/sales/bronze/{TABLE}?view=overview")
    page.get_by_text("Plots", exact=True).click()
    for name in NUMBERS:
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    assert page.locator("canvas").count() >= len(NUMBERS)
    shows_all(page)
    page.get_by_text("cdc/inserts", exact=True).scroll_into_view_if_needed()
    take("plots")
    page.goto(f"/assets/sales/bronze/{TABLE}?view=events")
    expect(page.get_by_text("cdc/rows", exact=True)).to_be_visible()
    shows_all(page)
    take("materialization")


def test_sensors_tick_without_an_error(page: Page, served: Served, take: Take) -> None:
    ticked = until(
        lambda: (found := served.ticks()) and all(found.values()) and found, "a tick of each"
    )
    assert {t["status"] for ticks in ticked.values() for t in ticks} <= QUIET
    page.goto("/automation")
    for name in SENSORS:
        expect(page.get_by_text(f"sales_{name}", exact=True)).to_be_visible()
    expect(page.get_by_text("Standard sensor", exact=True)).to_have_count(len(SENSORS))
    expect(page.get_by_text(re.compile("fail|error", re.IGNORECASE))).to_have_count(0)
    shows_all(page)
    take("sensors")


def is_late(database: Database) -> bool:
    """Whether a sync finds capture further behind than the table is allowed."""
    sync(database)
    return health(database)[LATE_TABLE].finality.reason is Reason.CAPTURE_STOPPED


def test_a_late_table_says_why(page: Page, served: Served, home: Path, take: Take) -> None:
    administrator = home / ".cdc" / "sandbox" / f"{DATABASE}.admin.odbc"
    with wire(administrator.read_text()) as cursor:
        cursor.execute("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
        cursor.execute("UPDATE dbo.orders SET clerk = N'waits' WHERE order_id = 1")
    database = Database.of(DATABASE, load_settings(home / "tables.yaml").databases[DATABASE])
    until(lambda: is_late(database), "a capture that is late")
    page.goto(f"/assets/sales/silver/{LATE_TABLE}?view=checks&checkDetail=finalized")
    page.get_by_text("Execute", exact=True).click()
    expect(page.get_by_text("capture_stopped", exact=True)).to_be_visible()
    expect(page.get_by_text("docs/runbook.md#capture_stopped")).to_be_visible()
    shows_all(page)
    take("late-check")
