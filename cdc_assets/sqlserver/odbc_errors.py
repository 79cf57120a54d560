"""What ODBC's errors mean: which may pass by themselves, and what to do about the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
from cdc_assets.sqlserver.connection_string import odbc_pairs

if TYPE_CHECKING:
    import arrow_odbc

    from cdc_assets.sqlserver.connection import SourceConnection

_BUSY_NATIVE = frozenset(
    # Locks, versions and memory: Microsoft's lists for its retrying clients.
    {601, 617, 669, 1203, 1204, 1205, 1222, 3956, 3958, 3960, 3961, 3966, 4221}
    | {8628, 8645, 8651, 10922, 10928, 10929, 10936, 41301, 41302, 41305, 41325, 41839}
    # A database, replica or server that comes up, goes down or ends sessions.
    | {596, 615, 904, 913, 921, 922, 929, 941, 952, 956, 976, 982, 983, 988}
    | {6005, 17142, 17197, 18401}
    # Azure.
    | {40143, 40197, 40501, 40540, 40613, 42108, 42109, 49918, 49919, 49920}
)
_DATABASE_NATIVE = frozenset({4060, 4064})
"""Of a database that a login asks for, and of its default one."""
_DENIED_NATIVE = frozenset({229, 230, 262, 297, 300, 916, 22904})
_REPORT = "It is the driver's own error; if it stays, please report it."
_ODBC_ERROR = re.compile(r"State: (\w+), Native error: (-?\d+), Message: (.*)", re.DOTALL)
_MISSPELT = re.compile(r"Invalid value specified for connection string|Neither DSN nor SERVER")
"""What the driver says before it has tried to connect, with the state of a failed connection."""
_PREFIX = re.compile(r"^(\[[^\]]*\])+")


class ValueTooLargeError(Exception):
    """A (max) value did not fit the fetch buffer; read the range again with a larger one."""


def translate(error: arrow_odbc.Error, source: SourceConnection) -> Exception:
    """The typed error for what ODBC reported; the connection string is never part of it."""
    raw = error.message()
    found = _ODBC_ERROR.search(raw)
    if found is None:
        if "too large" in raw.lower() or "truncat" in raw.lower():
            return ValueTooLargeError(raw)
        return SourceQueryError(_one_line(raw), where=source.name, hint=_REPORT)
    state, native, message = found.group(1), int(found.group(2)), _one_line(found.group(3))
    if _MISSPELT.match(message):
        return SettingsError(
            message, where=source.name, hint="Correct the connection string of this database."
        )
    ours = _unavailable(state, native, message, source) or _refused(state, native, message, source)
    return ours or SourceQueryError(
        f"{message} (Msg {native})",
        where=source.name,
        hint="It is the server's own error: its number says more.",
    )


def _unavailable(
    state: str, native: int, message: str, source: SourceConnection
) -> CdcError | None:
    """The errors of a server that cannot answer now, and of a driver that cannot ask."""
    if native in _BUSY_NATIVE or state == "40001":
        return SourceBusyError(message, where=source.name, hint="Run it again.")
    # IMC01 to IMC06: an idle connection broke, and the driver's own attempts to restore it failed.
    if state.startswith(("08", "IMC")) or state in ("HYT00", "HYT01"):
        if native not in _DATABASE_NATIVE and native != 18456:
            return SourceUnavailableError(
                message, where=source.name, hint="Is the server up, and the address right?"
            )
    elif state.startswith("IM") or (state == "01000" and "file not found" in message.lower()):
        return DriverMissingError(
            message, where=source.name, hint="Install unixodbc, or set CDC_ODBC_DRIVER to the .so."
        )
    return None


def _refused(state: str, native: int, message: str, source: SourceConnection) -> CdcError | None:
    """The errors that stay until somebody changes something; None for what says enough itself."""
    database = odbc_pairs(source.text).get("database", "the source database")
    quoted, user = _bracketed(database), _bracketed(source.user)
    if native in _DATABASE_NATIVE:
        return DatabaseRefusedError(
            message,
            where=source.name,
            hint="Check the database's name. The login needs a user in it: CREATE USER"
            f" {user} FOR LOGIN {user}. Where the server was just started, run it again.",
        )
    if state.startswith("28") or native == 18456:
        hint = "Check the user and the password."
        return LoginRefusedError(message, where=source.name, hint=hint)
    if native == 916:
        hint = f"Run in {quoted}: CREATE USER {user} FOR LOGIN {user}."
        return PermissionMissingError(message, where=source.name, hint=hint)
    if native in _DENIED_NATIVE:
        return PermissionMissingError(message, where=source.name, hint=_grant(message, source))
    if native in (3952, 3957):
        return IsolationRefusedError(
            f"the database {database} does not allow snapshot isolation",
            where=source.name,
            hint=f"Run: ALTER DATABASE {quoted} SET ALLOW_SNAPSHOT_ISOLATION ON, or leave"
            " `isolation: snapshot` out of tables.yaml.",
        )
    if native == 207 and "__$command_id" in message:
        return SourceQueryError(
            "the change table has no column __$command_id, as on some builds of SQL Server 2016",
            where=source.name,
            hint="Set `include_command_id: false` for the table in tables.yaml, or update the"
            " server.",
        )
    if native == 22901 or (native == 208 and "cdc.lsn_time_mapping" in message):
        return CaptureNotEnabledError(
            f"change data capture is not on in the database {database}",
            where=source.name,
            hint=f"Run in {quoted}: EXEC sys.sp_cdc_enable_db, and sys.sp_cdc_enable_table for"
            " each table.",
        )
    return None


def _grant(message: str, source: SourceConnection) -> str:
    found = re.search(r"object '([^']+)', database '([^']+)', schema '([^']+)'", message)
    if not found:
        return (
            "The login needs SELECT on the table and on its change table: `cdc-assets sql` prints"
            " the GRANTs."
        )
    name, database, schema = (_bracketed(part) for part in found.groups())
    user = _bracketed(source.user)
    return f"Run in {database}: GRANT SELECT ON {schema}.{name} TO {user}."


def _bracketed(name: str) -> str:
    """A name of any length in brackets, for a message alone."""
    return "[" + name.replace("]", "]]") + "]"


def _one_line(message: str) -> str:
    return _PREFIX.sub("", " ".join(message.split())).strip().rstrip(".")
