"""Which tables of a lake no settings name any more, and which of them have only another name."""

from datetime import datetime

import pytest

from cdc_assets.errors import TableRenamedError
from cdc_assets.lsn import Lsn
from cdc_assets.names import DatabaseName
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.records import ControlRow, Identity
from cdc_assets.planning.retired import check_not_renamed, retired_sources, retired_tables

LSN = str(Lsn.of_int(9))
CONTROL = {
    row.table_name: row
    for row in (
        ControlRow("bronze/orders", end_lsn=LSN, source_object_id=1),
        ControlRow("bronze/items", end_lsn=LSN, source_object_id=2),
        ControlRow("bronze/older", end_lsn=LSN),  # Of a release that did not know its source.
        ControlRow("bronze/reset", source_object_id=3),  # Given up: nothing of it counts.
        ControlRow("silver/orders", applied_lsn=LSN),
        ControlRow("s3a://lake/of/a/stream", end_lsn=LSN, source_object_id=4),
    )
}


def instance(source: int) -> CaptureInstance:
    identity = Identity(source, 77, "dbo_orders", datetime(2026, 1, 1))
    return CaptureInstance(identity, "dbo", "orders", Lsn.of_int(1), ("id",))


def test_what_was_loaded_and_is_not_named_is_retired() -> None:
    assert retired_tables(CONTROL, ["items"]) == ["older", "orders"]
    assert retired_tables(CONTROL, ["items", "older", "orders", "new"]) == []
    assert retired_sources(CONTROL, ["items"]) == {1: "orders"}


def test_a_table_of_a_source_that_a_retired_one_had_is_refused() -> None:
    table = DatabaseName("sales", "lake").table("sold")
    with pytest.raises(TableRenamedError, match=r"dbo\.orders is in the lake already as orders"):
        check_not_renamed(table, instance(1), {1: "orders"})
    check_not_renamed(table, instance(2), {1: "orders"})
