"""How the source is read: READ COMMITTED unless asked otherwise, and never what is uncommitted."""

from __future__ import annotations

import pytest

from cdc_assets.errors import IsolationRefusedError
from cdc_assets.ingest.sync import sync
from cdc_assets_tests.path.helpers import COLUMNS, change_items, load, run_sync
from cdc_assets_tests.source import Project

pytestmark = [
    pytest.mark.sandbox,  # Only the sandbox tells which texts it was sent.
    pytest.mark.parametrize("engine_name", ["arrow"]),  # Both engines read through one connection.
]
TABLE = "dbo_items"
NEVER = ("NOLOCK", "UNCOMMITTED", "SERIALIZABLE", "HOLDLOCK", "READPAST")
LEVEL = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; "


def whole_life(items: Project) -> list[str]:
    """A snapshot in ranges, changes, a quiet look and a re-snapshot; gives what was sent."""
    items.source.trace()
    load(items)
    change_items(items.source)
    load(items)
    run_sync(items)
    change_items(items.source, base=500)
    assert sync(items.database(), resnapshot=True).failed == ()
    load(items)
    texts = items.source.traced()
    assert sum("FROM [dbo].[items]" in text for text in texts) > 3
    assert not [text for text in texts if any(word in text.upper() for word in NEVER)]
    return texts


def test_read_committed_unless_asked_otherwise(items: Project) -> None:
    """B071: no level is set, and no hint is given; a lock is waited for as long as told."""
    items.extra = {"num_partitions": 3, "lock_timeout_ms": 1234}
    texts = whole_life(items)
    assert not [text for text in texts if "ISOLATION" in text.upper()]
    prefix = "SET LOCK_TIMEOUT 1234; "
    assert all(text.startswith(prefix) for text in texts if "[dbo].[items]" in text)


def test_snapshot_isolation_where_the_database_allows_it(items: Project) -> None:
    """B071: refused with the way out, by whichever statement comes first, and kept to after."""
    items.extra = {"isolation": "snapshot", "num_partitions": 3}
    with pytest.raises(IsolationRefusedError) as refused:
        run_sync(items)
    name = items.source.name
    allow = f"ALTER DATABASE [{name}] SET ALLOW_SNAPSHOT_ISOLATION ON"
    assert f"the database {name} does not allow snapshot isolation" in str(refused.value)
    assert f"Run: {allow}, or leave `isolation: snapshot` out" in str(refused.value)
    assert items.database().lake.control.read() == {}
    items.source.execute(allow)
    texts = whole_life(items)
    assert all(text.startswith(LEVEL) for text in texts)
    items.assert_identical(TABLE, COLUMNS)

    items.source.execute(allow.replace(" ON", " OFF"))
    with pytest.raises(IsolationRefusedError):
        run_sync(items)
    items.extra = {}
    items.source.trace()
    assert sync(items.database()).failed == ()
    assert not [text for text in items.source.traced() if "ISOLATION" in text]
