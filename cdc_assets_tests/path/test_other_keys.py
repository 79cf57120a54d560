"""Silver's key is another unique index's from a snapshot on: none of its old rows stays."""

import pytest

from cdc_assets import faults
from cdc_assets.faults import FaultPoint
from cdc_assets.ingest.resets import reset
from cdc_assets.ingest.sync import sync
from cdc_assets.lake.tables import table_id
from cdc_assets.silver import apply
from cdc_assets_tests.path.helpers import load, once
from cdc_assets_tests.source import Project

TABLE = "dbo_codes"


@pytest.fixture
def codes(project: Project) -> Project:
    """Two rows of one code, which is to be the key."""
    project.source.execute(
        "CREATE TABLE dbo.codes (id int NOT NULL PRIMARY KEY, code int NOT NULL)",
        "INSERT INTO dbo.codes (id, code) VALUES (1, 5), (2, 6), (3, 5)",
    )
    project.source.enable("codes")
    project.tables = {TABLE: None}
    load(project, TABLE)
    return project


@pytest.mark.sqlserver
def test_silver_begins_anew_under_another_key(
    codes: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MERGE by the new key alone would find two old rows for one; also after a crash."""
    source = codes.source
    source.execute(
        "DELETE FROM dbo.codes WHERE id = 3",
        "CREATE UNIQUE INDEX ux_code ON dbo.codes (code)",
        f"EXEC sys.sp_cdc_disable_table N'dbo', N'codes', N'{TABLE}'",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'codes',"
        " @role_name = NULL, @supports_net_changes = 0, @index_name = N'ux_code'",
    )
    if source.server.reader != source.server.admin:
        source.execute(f"GRANT SELECT ON cdc.[{TABLE}_CT] TO [{source.server.reader_login}]")
    source.captured()
    assert not sync(codes.database(), resnapshot=True).failed

    def die(point: FaultPoint) -> None:
        if point is FaultPoint.SILVER_CREATED:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(faults, "reach", die)
        with pytest.raises(KeyboardInterrupt):
            apply.apply_changes(codes.database(), TABLE)
    assert codes.database().lake.control.read()[f"silver/{TABLE}"].finalized_until is None
    assert apply.apply_changes(codes.database(), TABLE).rebuilt
    assert codes.silver(TABLE, ["id", "code"]) == [(1, 5), (2, 6)]
    source.execute("UPDATE dbo.codes SET id = 7 WHERE code = 6")
    source.captured()
    load(codes, TABLE)
    assert codes.silver(TABLE, ["id", "code"]) == [(1, 5), (7, 6)]


def test_a_late_call_leaves_the_row_of_a_newer_silver(
    codes: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset and an apply come between its MERGE and its position."""
    codes.source.execute("UPDATE dbo.codes SET code = 7 WHERE id = 3")
    codes.source.captured()
    assert not sync(codes.database()).failed

    def happening() -> None:
        reset(codes.database(), TABLE)
        load(codes, TABLE)

    once(monkeypatch, apply, "_record", happening)
    assert apply.apply_changes(codes.database(), TABLE).overtaken
    database = codes.database()
    row = database.lake.control.read()[f"silver/{TABLE}"]
    silver = database.lake.silver(database.table(TABLE))
    assert silver is not None
    assert row.table_id == table_id(silver)
    assert codes.silver(TABLE, ["id", "code"]) == [(1, 5), (2, 6), (3, 7)]
