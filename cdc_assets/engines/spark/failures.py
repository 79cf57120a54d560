"""Our typed errors across the JVM, which carries text alone, and the names of Delta's conflicts.

A task's exception reaches the driver as a traceback inside a Java exception's message. So the
task puts its error into the text as JSON in base64, which survives quoting, wrapping and
indentation, and the driver finds it there: one place for both directions.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from cdc_assets.errors import CdcError, ExtraMissingError, expected
from cdc_assets.sqlserver.odbc_errors import ValueTooLargeError

_TOO_LARGE = "value_too_large"
_MARK = re.compile(r"<cdc-error:([A-Za-z0-9+/=]+)>")
_CONFLICTS = re.compile(
    r"\bDELTA_(CONCURRENT_[A-Z_]+|METADATA_CHANGED|PROTOCOL_CHANGED)\b"
    r"|\b(Concurrent(Append|DeleteRead|DeleteDelete|Transaction|Write)|MetadataChanged"
    r"|ProtocolChanged)Exception\b"
)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OTHER_SERVER = re.compile(r"\bINVALID_HANDLE\.(SESSION|OPERATION)_[A-Z_]+\b")


class TaskError(Exception):
    """What a task raises in place of a typed error: its text and the error in it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{error} {_encoded(error)}")


@contextmanager
def typed_in_text() -> Iterator[None]:
    """In a task: let its errors out as `TaskError`, so that `typed_error` finds them.

    Those that nobody foresaw too: in the driver their text would be taken for the lake's.
    """
    try:
        yield
    except (CdcError, ValueTooLargeError) as error:
        raise TaskError(error) from None
    except Exception as error:
        raise TaskError(expected(error)) from error


def typed_error(failure: BaseException) -> Exception | None:
    """In the driver: the error a task let out, or None where the failure is not one of ours."""
    found = _MARK.search(str(failure))
    if found is None:
        return None
    fields = json.loads(base64.b64decode(found.group(1)))
    if fields["code"] == _TOO_LARGE:
        return ValueTooLargeError(fields["what"])
    kind = next((k for k in _kinds(CdcError) if k.code == fields["code"]), CdcError)
    return kind(fields["what"], where=fields["where"], hint=fields["hint"])


def is_conflict(failure: BaseException) -> bool:
    """Whether Delta refused a commit because another writer was first."""
    return _CONFLICTS.search(str(failure)) is not None


def is_unreachable(failure: BaseException) -> bool:
    """Whether a Spark Connect server did not answer, or has started anew since."""
    status = connect_status(failure)
    is_anew = bool(status) and _OTHER_SERVER.search(str(failure)) is not None
    return status == "UNAVAILABLE" or is_anew


def worker_error(failure: BaseException) -> CdcError | None:
    """What Python lacks where Spark runs its tasks, or None where that is not what failed."""
    text = str(failure)
    if "PYTHON_VERSION_MISMATCH" in text:
        lacks = "have another minor version of Python"
    elif (module := _NO_MODULE.search(text)) is not None:
        lacks = f"have no Python module {module.group(1)}"
    else:
        return None
    return ExtraMissingError(
        f"Spark's workers {lacks}",
        hint="Install there what is installed here, in the same version; docs/engines.md says how"
        " Spark finds it.",
    )


def connect_status(failure: BaseException) -> str:
    """The name of gRPC's status of what Spark Connect raised; "" for any other failure."""
    status = getattr(failure, "getGrpcStatusCode", None)
    return str(status().name) if status else ""


def _encoded(error: Exception) -> str:
    if isinstance(error, CdcError):
        fields = {"code": error.code, "what": error.what, "where": error.where, "hint": error.hint}
    else:
        fields = {"code": _TOO_LARGE, "what": str(error)}
    return f"<cdc-error:{base64.b64encode(json.dumps(fields).encode()).decode()}>"


def _kinds(kind: type[CdcError]) -> Iterator[type[CdcError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
