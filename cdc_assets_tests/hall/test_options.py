"""The options of a stream: read, refused, warned of, and shown on their page."""

import pytest

from cdc_assets.errors import SettingsError
from cdc_assets.lsn import Lsn
from cdc_assets.settings.load import connection_text
from cdc_assets.settings.model import DatabaseSettings
from cdc_assets.settings.options import OPTIONS, UnknownOptionWarning, read_options
from cdc_assets.settings.tables import DataLossPolicy, SchemaChangePolicy, TableSettings
from cdc_assets_tests.reference import PAGE, page

SOURCE = {"connection": "file:/run/secrets/sales", "captureInstance": "dbo_items"}
LSN = "0x0000002A000000B80003"


def test_the_page_says_what_is_declared() -> None:
    assert PAGE.read_text() == page(), "python -m cdc_assets_tests.reference writes it anew"
    assert [o.name for o in OPTIONS if not o.help or not o.type] == []


def test_names_ignore_case_and_values_get_their_types() -> None:
    found = read_options(
        {
            **SOURCE,
            "MAXCOMMITSPERBATCH": "10",
            "columns": " id, name ",
            "rename": '{"a=b": "ab"}',
            "startinglsn": LSN.lower(),
            "failOnDataLoss": "No",
            "includecommandid": "0",
            "schemaChangePolicy": "FAIL",
            "numPartitions": "auto",
            "isolationLevel": "SNAPSHOT",
            "lockTimeoutMs": "250",
            "arrowBatchSize": "1000",
        }
    )
    assert found.table == {
        "capture_instance": "dbo_items",
        "max_commits_per_batch": 10,
        "columns": ("id", "name"),
        "rename": {"a=b": "ab"},
        "on_data_loss": DataLossPolicy.SKIP,
        "include_command_id": False,
        "schema_change_policy": SchemaChangePolicy.FAIL,
    }
    assert found.database == {
        "connection": "file:/run/secrets/sales",
        "num_partitions": None,
        "isolation": "snapshot",
        "lock_timeout_ms": 250,
        "batch_rows": 1000,
    }
    assert found.stream == {"startingLsn": Lsn(LSN)}


@pytest.mark.parametrize("text", ["true", "1", "YES", "false", "0", "no"])
def test_a_boolean_is_one_of_six(text: str) -> None:
    wanted = text.lower() in ("true", "1", "yes")
    found = read_options({**SOURCE, "includeCommandId": text}).table["include_command_id"]
    assert found is wanted


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("includeCommandId", "on", "a boolean is one of true, 1, yes, false, 0, no"),
        ("failOnDataLoss", "t", "a boolean is one of"),
        ("maxCommitsPerBatch", "0", "greater than or equal to 1"),
        ("maxCommitsPerBatch", "ten", "valid integer"),
        ("numPartitions", "257", "less than or equal to 256"),
        ("startingLsn", "now", "earliest, latest or an LSN"),
        ("startingLsn", "0x12", "startingLsn"),
        ("rename", "a:b", "source=name"),
        ("schemaChangePolicy", "warn", "'continue' or 'fail'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(name: str, value: str, told: str) -> None:
    with pytest.raises(SettingsError, match=name) as refused:
        read_options({**SOURCE, name: value})
    assert told in str(refused.value)


def test_an_unknown_option_is_a_warning_that_names_the_one_meant() -> None:
    with pytest.warns(UnknownOptionWarning, match="Did you mean maxCommitsPerBatch"):
        read_options({**SOURCE, "maxCommitPerBatch": "s3cret"})


def test_a_missing_source_is_told() -> None:
    with pytest.raises(SettingsError, match="captureInstance is missing"):
        read_options({"connection": "env:SALES"})
    assert read_options({"table": "sales.dbo_items"}).get("table") == "sales.dbo_items"


@pytest.mark.parametrize("name", ["connection", "connectionString", "password"])
def test_a_secret_is_refused_and_not_repeated(name: str) -> None:
    """B188: Spark shows options."""
    with pytest.raises(SettingsError) as refused:
        read_options({**SOURCE, name: "Server=x;UID=u;PWD=Tr0ub4dor"})
    assert "Tr0ub4dor" not in repr(refused.value)
    assert "file:PATH" in str(refused.value)


def test_a_connection_stands_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DatabaseSettings(connection="env:SALES_ODBC", tables={"t": TableSettings()})
    monkeypatch.setenv("SALES_ODBC", " Server=x ")
    assert connection_text(settings, where="sales") == "Server=x"
    monkeypatch.delenv("SALES_ODBC")
    with pytest.raises(SettingsError, match="variable SALES_ODBC is not set"):
        connection_text(settings, where="sales")
