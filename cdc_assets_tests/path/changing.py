"""DDL on dbo.items, further capture instances of it, and what was told of them."""

from __future__ import annotations

from cdc_assets.contract import Event
from cdc_assets.planning.records import FactsRow
from cdc_assets_tests.source import Project, Source

TABLE = "dbo_items"
OLD, NEW = "dbo_items", "items_v2"


def enable(source: Source, name: str, columns: str | None = None) -> None:
    """A further capture instance of dbo.items, which the product's login may read."""
    listed = f", @captured_column_list = N'{columns}'" if columns else ""
    source.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'items',"
        f" @role_name = NULL, @supports_net_changes = 0, @capture_instance = N'{name}'{listed}"
    )
    if source.server.reader != source.server.admin:
        source.execute(f"GRANT SELECT ON cdc.[{name}_CT] TO [{source.server.reader_login}]")


def disable(source: Source, name: str = OLD) -> None:
    """Give a capture instance of dbo.items up."""
    source.execute(f"EXEC sys.sp_cdc_disable_table N'dbo', N'items', N'{name}'")


def clean(source: Source, name: str) -> None:
    """Let cleanup remove all that an instance of dbo.items holds up to now."""
    source.execute(
        "DECLARE @to binary(10); SET @to = sys.fn_cdc_get_max_lsn();"
        f" EXEC sys.sp_cdc_cleanup_change_table N'{name}', @to"
    )


def commit(source: Source, *texts: str) -> None:
    """Run statements and wait until capture has them."""
    before = source.rows("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    source.execute(*texts)
    source.captured(minimum=before)


def events(items: Project, event: Event) -> list[FactsRow]:
    """The events of one kind, oldest first."""
    return [r for r in items.database().lake.facts.events() if r.event == event]


def bronze_type(items: Project, column: str) -> str:
    """A column's Delta type in bronze."""
    database = items.database()
    found = database.lake.bronze(database.table(TABLE))
    assert found is not None
    (kind,) = [str(f.type.type) for f in found.schema().fields if f.name == column]
    return kind


def instances_read(items: Project) -> list[str]:
    """The instances of bronze's changes, in the order of the log, each run of one once."""
    names = [r["_capture_instance"] for r in items.bronze(TABLE) if r["_operation"] != 0]
    return [n for i, n in enumerate(names) if i == 0 or names[i - 1] != n]
