"""Everything that can go wrong, as types: what happened, to what, and what to do next.

`transient` decides retries, here and nowhere else. Errors cross process borders (Spark workers,
Dagster steps), so they pickle; their text never holds a connection string.
"""

from __future__ import annotations

import re
from typing import ClassVar

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PY4J = "An error occurred while calling "
_LITERAL = re.compile(r"""'.*'|".*"|`.*`|(?<!\w)[-+]?\d[\d.,:eE+-]*""")
"""What may be a value in the text of an error: quoted, or a number."""


class CdcError(Exception):
    """Base of all errors a user can meet; prints as one sentence and a hint.

    `what` is a sentence without its full stop, `where` the table or object it is about, `hint`
    the next step as a sentence.
    """

    code: ClassVar[str] = "error"
    transient: ClassVar[bool] = False

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{place}{self.what}.{hint} [{self.code}]"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.hint)


def _rebuild(kind: type[CdcError], what: str, where: str, hint: str) -> CdcError:
    return kind(what, where=where, hint=hint)


class UnexpectedError(CdcError):
    """Something failed that nobody foresaw; the log has its traceback."""

    code = "unexpected"


def expected(error: Exception) -> CdcError:
    """An error as one of ours: itself, or its class and first line as an `UnexpectedError`.

    Its text may hold a value of the data, which belongs in no message: literals are left out, and
    of what converts values (Arrow, Python's own) all but the class.
    """
    if isinstance(error, CdcError):
        return error
    converts = isinstance(error, (ValueError, ArithmeticError)) or _module(error) == "pyarrow"
    told = "" if converts else _LITERAL.sub("…", first_line(str(error)))
    return UnexpectedError(
        f"{type(error).__name__}{': ' if told else ''}{told}",
        hint="The log has the traceback; please report it.",
    )


def _module(error: Exception) -> str:
    return type(error).__module__.partition(".")[0]


def first_line(text: str) -> str:
    """The first line of what a library says that says something, without colours and full stop.

    Py4J's own first line names the call alone.
    """
    lines = (line.strip(" .:\t") for line in _ANSI.sub("", text).splitlines())
    return next((line for line in lines if line and not line.startswith(_PY4J)), "")


class SettingsError(CdcError):
    """`tables.yaml` or the environment says something that cannot be."""

    code = "settings"


class TablePausedError(CdcError):
    """`tables.yaml` says that the table stands still."""

    code = "paused"


class TableRenamedError(CdcError):
    """A table that is new in `tables.yaml` is in the lake under a name that it no longer has."""

    code = "renamed"


class DriverMissingError(CdcError):
    """No ODBC driver for SQL Server, or the driver manager is not installed."""

    code = "odbc_driver_missing"


class JavaMissingError(CdcError):
    """The Spark engine is asked for and there is no usable Java."""

    code = "java_missing"


class ExtraMissingError(CdcError):
    """An optional part of the project is needed and not installed."""

    code = "extra_missing"


class SparkUnavailableError(CdcError):
    """The Spark Connect server cannot be reached, or was lost during the work."""

    code = "spark_unavailable"
    transient = True


class SourceUnavailableError(CdcError):
    """The server cannot be reached, or dropped the connection."""

    code = "source_unavailable"
    transient = True


class SourceBusyError(CdcError):
    """A deadlock, lock timeout or throttling: the same call may go through later."""

    code = "source_busy"
    transient = True


class LoginRefusedError(CdcError):
    """The server refused the login."""

    code = "login_refused"


class DatabaseRefusedError(CdcError):
    """The server knows the login, and opens no such database for it.

    Its name is wrong, the login has no user in it, or it is not up again after a restart: a
    server says the same of all. So the call is made once more, and no further run is tried.
    """

    code = "database_refused"


class PermissionMissingError(CdcError):
    """The login lacks a grant; the hint is the GRANT to run."""

    code = "permission_missing"


class SourceQueryError(CdcError):
    """The server refused a query for a reason of its own."""

    code = "source_query"


class IsolationRefusedError(CdcError):
    """The database does not allow the isolation that the settings ask for."""

    code = "isolation_refused"


class CaptureNotEnabledError(CdcError):
    """Change data capture is not on in the database."""

    code = "capture_not_enabled"


class CaptureInstanceUnknownError(CdcError):
    """The database has no such capture instance, or the login may not see it."""

    code = "capture_instance_unknown"


class CaptureNotReadyError(CdcError):
    """The capture instance has no first LSN yet."""

    code = "capture_not_ready"


class SnapshotWaitsError(CdcError):
    """A snapshot has no LSN of its own yet; the next sync looks again."""

    code = "snapshot_waits"


class DataLossError(CdcError):
    """CDC cleanup removed changes before they were read."""

    code = "data_loss"


class HistoryChangedError(CdcError):
    """The source's log is not the one the position was taken from (restore or fail-over)."""

    code = "history_changed"


class SnapshotModeError(CdcError):
    """A snapshot is open, and one of the other mode cannot be taken beside it."""

    code = "snapshot_mode"


class SourceBehindError(CdcError):
    """The server has not reached what was read before: it is a copy of the one read then."""

    code = "source_behind"


class SeedRefusedError(CdcError):
    """A copy cannot become the table's snapshot."""

    code = "seed_refused"


class SeedOpenError(CdcError):
    """A copy is being made the table's snapshot, and its rows are not there yet."""

    code = "seed_open"


class SchemaChangedError(CdcError):
    """The source table was changed in a way that bronze cannot follow, or may not."""

    code = "schema_changed"


class UnsupportedColumnError(CdcError):
    """A captured column has a type, or a name, that cannot be written."""

    code = "unsupported_column"


class BookkeepingError(CdcError):
    """One of our own tables holds a value that we never write."""

    code = "bookkeeping"


class TableFeatureError(CdcError):
    """A Delta table has a feature that delta-rs cannot do, and Spark can."""

    code = "table_feature"


class TableNewerError(CdcError):
    """A Delta table was written by a newer version of this project."""

    code = "table_newer"


class TableReplacedError(CdcError):
    """A Delta table is missing, or another one stands in its place."""

    code = "table_replaced"


class LakeUnavailableError(CdcError):
    """The lake cannot be reached, read or written: its place, its space or its credentials."""

    code = "lake_unavailable"


class LakeDamagedError(CdcError):
    """A Delta table cannot be read: its log, a checkpoint or a file is damaged or missing."""

    code = "lake_damaged"


class CommitConflictError(CdcError):
    """Another writer committed first, again and again."""

    code = "commit_conflict"
    transient = True


class AnotherWriterError(CdcError):
    """A stream found a batch of its table that neither it nor its predecessor has written."""

    code = "another_writer"


class CheckpointError(CdcError):
    """A stream's checkpoint is missing, was set back, or is not one of ours."""

    code = "checkpoint"


class SilverKeyError(CdcError):
    """Silver's key is unknown, missing from bronze, or not unique."""

    code = "silver_key"
