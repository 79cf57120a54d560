"""The least-privilege login: two grants a table are enough, and a missing one is named."""

from collections.abc import Callable

import pytest

from cdc_assets.contract import Event
from cdc_assets.errors import PermissionMissingError
from cdc_assets.ingest.seeding import seed
from cdc_assets_tests.path.changing import NEW, TABLE, commit, enable, events
from cdc_assets_tests.path.copying import copy_of
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sqlserver,
    pytest.mark.parametrize("engine_name", ["arrow"]),  # Grants are asked for before an engine is.
]


def the_login(items: Project) -> str:
    """The product's login; the tests have to be able to take its grants away."""
    server = items.source.server
    if server.reader == server.admin:
        pytest.skip("the product's login is the administrator's: it needs no grant")
    return server.reader_login


def seed_now(items: Project) -> None:
    """The table's first snapshot from a copy of now."""
    at = items.source.captured()
    seed(items.database(), TABLE, copy_of(items.source), at)


@pytest.mark.parametrize(
    "missing", ["[dbo].[items]", "[cdc].[dbo_items_CT]"], ids=["source", "changes"]
)
def test_a_missing_grant_is_named_and_nothing_written(items: Project, missing: str) -> None:
    """B192: from the first run, and after one was taken away; the message's GRANT heals it."""
    login = the_login(items)
    for rounds in range(2):
        if rounds:
            load(items)
            change_items(items.source)
        rows = len(items.bronze(TABLE)) if rounds else 0
        items.source.execute(f"REVOKE SELECT ON {missing} FROM [{login}]")
        with pytest.raises(PermissionMissingError) as denied:
            run_sync(items)
        grant = f"GRANT SELECT ON {missing} TO [{login}]"
        assert f"Run in [{items.source.name}]: {grant}." in str(denied.value)
        assert (len(items.bronze(TABLE)) if rounds else 0) == rows
        items.source.execute(grant)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


@pytest.mark.parametrize("by", [run_sync, seed_now], ids=["snapshot", "seed"])
def test_every_instance_that_is_read_needs_its_grant(
    items: Project, by: Callable[[Project], object]
) -> None:
    """B192: the changes after the snapshot come from the newer one, and nothing is read before."""
    login = the_login(items)
    enable(items.source, NEW)
    commit(items.source, "UPDATE dbo.items SET name = N'other' WHERE id = 1")
    items.source.execute(f"REVOKE SELECT ON cdc.[{NEW}_CT] FROM [{login}]")
    with pytest.raises(PermissionMissingError, match=rf"GRANT SELECT ON \[cdc\]\.\[{NEW}_CT\]"):
        by(items)
    assert events(items, Event.SNAPSHOT_OPEN) == []
    items.source.execute(f"GRANT SELECT ON cdc.[{NEW}_CT] TO [{login}]")
    by(items)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)


def test_both_grants_missing_are_named_at_once(items: Project) -> None:
    """B192."""
    login = the_login(items)
    items.source.execute(
        f"REVOKE SELECT ON dbo.items FROM [{login}]",
        f"REVOKE SELECT ON cdc.dbo_items_CT FROM [{login}]",
    )
    with pytest.raises(PermissionMissingError) as denied:
        run_sync(items)
    assert (
        f"GRANT SELECT ON [dbo].[items] TO [{login}];"
        f" GRANT SELECT ON cdc.[dbo_items_CT] TO [{login}]"
    ) in str(denied.value)


def test_a_gating_role_the_login_is_not_in(items: Project) -> None:
    """B192."""
    login = the_login(items)
    items.source.execute(
        "EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'all'",
        "EXEC sys.sp_cdc_enable_table N'dbo', N'items', @role_name = N'cdc_reader',"
        " @supports_net_changes = 0",
        f"GRANT SELECT ON cdc.dbo_items_CT TO [{login}]",
    )
    with pytest.raises(PermissionMissingError, match="gating role"):
        run_sync(items)
    items.source.execute(f"ALTER ROLE cdc_reader ADD MEMBER [{login}]")
    load(items)
    change_items(items.source)
    load(items)
    items.assert_identical(TABLE, COLUMNS)
