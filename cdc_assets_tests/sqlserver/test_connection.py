"""What ODBC reports, as typed errors; which driver is taken; what is never printed."""

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.errors import (
    CaptureNotEnabledError,
    CdcError,
    DatabaseRefusedError,
    DriverMissingError,
    IsolationRefusedError,
    LoginRefusedError,
    PermissionMissingError,
    SettingsError,
    SourceBusyError,
    SourceQueryError,
    SourceUnavailableError,
)
from cdc_assets.sqlserver import connection, driver
from cdc_assets.sqlserver.connection import SourceConnection, connect, with_retries
from cdc_assets.sqlserver.odbc_errors import translate

BUSY = SourceBusyError
SOURCE = SourceConnection(name="sales", text="Server=x;UID=reader;PWD=canary-41c")
ODBC = "ODBC emitted an error calling 'SQLExecute':\nState: {}, Native error: {}, Message: {}"
DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"


class ReportedError(Exception):
    """Has the one method of arrow-odbc's error that is used."""

    def message(self) -> str:
        return str(self.args[0])


def translated(state: str, native: int, text: str) -> Any:
    return translate(ReportedError(ODBC.format(state, native, DRIVER + text)), SOURCE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "native", "text", "kind", "transient"),
    [
        ("08001", 0, "TCP Provider: Error code 0x2749", SourceUnavailableError, True),
        ("08S01", 104, "Communication link failure", SourceUnavailableError, True),
        ("HYT00", 0, "Login timeout expired", SourceUnavailableError, True),
        ("HYT01", 0, "Connection timeout expired", SourceUnavailableError, True),
        ("08003", 0, "Connection not open", SourceUnavailableError, True),
        ("IMC06", 0, "The connection is broken and recovery failed", SourceUnavailableError, True),
        ("HY000", 596, "Cannot continue the execution: the session is killed", BUSY, True),
        ("08001", 18401, "Login failed: the server is in script upgrade mode", BUSY, True),
        ("42000", 976, "The target database is a secondary", BUSY, True),
        ("42000", 983, "Unable to access the availability database", BUSY, True),
        ("HY000", 40197, "The service has encountered an error", BUSY, True),
        ("HY000", 40501, "The service is currently busy", BUSY, True),
        ("08001", 40613, "Database is not currently available", BUSY, True),
        ("HY000", 49918, "Cannot process request", BUSY, True),
        ("42000", 3961, "Snapshot isolation failed: modified by a DDL statement", BUSY, True),
        ("42000", 3952, "Snapshot isolation is not allowed", IsolationRefusedError, False),
        ("42000", 22901, "The database is not enabled for CDC.", CaptureNotEnabledError, False),
        (
            "42S02",
            208,
            "Invalid object name 'cdc.lsn_time_mapping'.",
            CaptureNotEnabledError,
            False,
        ),
        ("42000", 916, "Not able to access the database", PermissionMissingError, False),
        ("42000", 300, "VIEW SERVER STATE denied", PermissionMissingError, False),
        ("08001", 4060, "Cannot open database", DatabaseRefusedError, False),
        ("28000", 4064, "Cannot open user default database", DatabaseRefusedError, False),
        ("42000", 904, "Database 9 cannot be autostarted during server startup", BUSY, True),
        ("HY000", 913, "Could not find database ID 9. It may not be activated yet", BUSY, True),
        ("42000", 921, "Database 'x' has not been recovered yet", BUSY, True),
        ("42000", 922, "Database 'x' is being recovered", BUSY, True),
        ("42000", 952, "Database 'x' is in transition. Try the statement later", BUSY, True),
        ("42000", 942, "Database 'x' cannot be opened: it is offline", SourceQueryError, False),
        ("42000", 927, "Database 'x' is in the middle of a restore", SourceQueryError, False),
        ("22003", 8115, "Arithmetic overflow", SourceQueryError, False),
        ("40001", 1205, "Transaction was deadlocked", SourceBusyError, True),
        ("42000", 1222, "Lock request time out period exceeded.", SourceBusyError, True),
        ("42000", 3960, "Snapshot isolation transaction aborted", SourceBusyError, True),
        ("28000", 18456, "Login failed for user 'reader'.", LoginRefusedError, False),
        ("42000", 4060, "Cannot open database", DatabaseRefusedError, False),
        ("42S02", 208, "Invalid object name 'x'.", SourceQueryError, False),
        ("IM002", 0, "Data source name not found", DriverMissingError, False),
        ("01000", 0, "Can't open lib 'x' : file not found", DriverMissingError, False),
    ],
)
def test_states_and_numbers(
    state: str, native: int, text: str, kind: type[CdcError], transient: bool
) -> None:
    error = translated(state, native, text)
    assert type(error) is kind
    assert error.transient is transient
    assert "[Microsoft]" not in str(error)
    assert "canary" not in str(error)


def test_a_change_table_without_command_ids_names_the_setting() -> None:
    error = translated("42S22", 207, "Invalid column name '__$command_id'.")
    assert type(error) is SourceQueryError
    assert "include_command_id: false" in error.hint
    assert "include_command_id" not in translated("42S22", 207, "Invalid column name 'id'.").hint


def test_a_missing_permission_names_the_grant() -> None:
    """B192: also for a column's, and where the login has no user in the database."""
    text = (
        "The SELECT permission was denied on the object 'dbo_orders_CT', database 'sales',"
        " schema 'cdc'."
    )
    error = translated("42000", 229, text)
    assert type(error) is PermissionMissingError
    assert "GRANT SELECT ON [cdc].[dbo_orders_CT] TO [reader]" in str(error)
    column = (
        "The SELECT permission was denied on the column 'note' of the object 'orders', database"
        " 'sales', schema 'dbo'."
    )
    assert "GRANT SELECT ON [dbo].[orders] TO [reader]" in str(translated("42000", 230, column))
    no_user = translated("42000", 916, 'The server principal "reader" is not able to access')
    assert "CREATE USER [reader] FOR LOGIN [reader]" in str(no_user)


def test_transient_errors_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "retry_wait_seconds", lambda _: 0.0)
    calls = []

    def fails(kind: type[CdcError]) -> None:
        calls.append(kind)
        raise kind("no")

    with pytest.raises(SourceUnavailableError):
        with_retries(lambda: fails(SourceUnavailableError))
    assert len(calls) == connection.ATTEMPTS_MAX
    with pytest.raises(LoginRefusedError):
        with_retries(lambda: fails(LoginRefusedError))
    assert len(calls) == connection.ATTEMPTS_MAX + 1
    with pytest.raises(DatabaseRefusedError):
        with_retries(lambda: fails(DatabaseRefusedError))
    assert calls[-3:] == [LoginRefusedError, DatabaseRefusedError, DatabaseRefusedError]


def test_the_connection_string_is_never_printed() -> None:
    assert "canary" not in repr(SOURCE)
    assert SOURCE.user == "reader"
    hidden = SourceConnection(name="x", text="PWD={a;UID=canary-41c};UID=app")
    assert hidden.user == "app"


CANARY = "C4nary;}x"


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        ("Server=127.0.0.1,1", SourceUnavailableError),
        ("Server=127.0.0.1,1;Encrypt=perhaps", SettingsError),
        ("Server=127.0.0.1,1;ConnectRetryInterval={0}", SettingsError),
        # Ours wins.
        ("Server=127.0.0.1,1;ConnectRetryCount={0}", SourceUnavailableError),
        ("DSN=none", SettingsError),
        ("Driver={{nowhere}};Server=127.0.0.1,1", DriverMissingError),
    ],
)
def test_a_password_is_in_no_error(rest: str, kind: type[CdcError]) -> None:
    """B188: refused, misspelt or without a driver; a misspelt string is not tried again."""
    escaped = CANARY.replace("}", "}}")
    text = f"{rest.format(escaped)};UID=reader;PWD={{{escaped}}}"
    with pytest.raises(kind) as caught, connect(SourceConnection("sales", text, None, 1)):
        pass
    for shown in (str(caught.value), repr(caught.value), repr(caught.value.__cause__)):
        assert "C4nary" not in shown
    assert caught.value.transient == (kind is SourceUnavailableError)


def test_waits_grow_and_are_jittered() -> None:
    for attempt, low in ((1, 1), (2, 2), (3, 4)):
        state = type("State", (), {"attempt_number": attempt})
        waits = [connection.retry_wait_seconds(state) for _ in range(50)]
        assert low <= min(waits) < max(waits) <= 2 * low


def test_the_wheels_driver_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver.find_driver.cache_clear()
    monkeypatch.delenv(driver.DRIVER_VARIABLE, raising=False)
    monkeypatch.setenv("ODBCSYSINI", str(tmp_path))
    assert Path(driver.find_driver()).name.startswith("libmsodbcsql-18")
    driver.find_driver.cache_clear()
    monkeypatch.setenv(driver.DRIVER_VARIABLE, "/opt/other.so")
    assert driver.find_driver() == "/opt/other.so"
    driver.find_driver.cache_clear()


def test_no_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver.find_driver.cache_clear()
    monkeypatch.delenv(driver.DRIVER_VARIABLE, raising=False)
    monkeypatch.setenv("ODBCSYSINI", str(tmp_path))
    monkeypatch.setattr(driver, "_WHEEL", "no_such_wheel")
    with pytest.raises(DriverMissingError, match="pip install mssql-python-odbc"):
        driver.find_driver()
    driver.find_driver.cache_clear()
