"""What delta-rs, its stores and Spark say of a lake that fails, as our errors.

They speak in text: of the operating system, of a store, of a parser. What a person has to do is
one of a few things, and that is what is told, with the table's place and their own reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import CommitFailedError, DeltaError

from cdc_assets.errors import (
    CdcError,
    LakeDamagedError,
    LakeUnavailableError,
    first_line,
)
from cdc_assets.names import kind_of

REASON_LENGTH_MAX = 300
"""Characters kept of what a library said."""

_QUERY = re.compile(r"(://[^\s?]*)\?\S*")
"""The query of an address: a signed one has its signature there."""
_SIGNED = re.compile(r"(?i)\b(sig|signature|token|password|pwd|accountkey|secret)=\S+")

_NO_CONFLICT = ("unsupported", "not supported", "append-only")
_FULL = ("no space left", "quota exceeded", "file too large", "os error 27", "os error 28")
_DENIED = ("permission denied", "read-only file system", "not permitted", "access denied")
_DENIED_BY_STORE = ("accessdenied", "403 forbidden", "401 unauthorized", "invalidaccesskeyid")
_NO_FOLDER = ("not a directory", "could not create local directory", "parentnotdirectory")
_DAMAGED = (
    *("json error", "parquet error", "corrupt", "requested range was invalid", "invalid json"),
    *("failed to parse", "no such file", "failed_read_file", "filenotfoundexception"),
    *("not a parquet file", "invalid checkpoint", "invalid table version"),
    *("missing metadata", "missing protocol"),
)
_UNREACHABLE = (
    *("generic s3 error", "generic microsoftazure error", "generic gcs error", "generic http"),
    *("error sending request", "error performing", "credential", "connection refused"),
    *("unknownhostexception", "no suitable object store"),
)
_SPARK = {"pyspark", "py4j"}
_OTHERWISE = ("os error", "panicked with message")
_CHAIN = "↳"
"""Begins each further line of what delta-rs says."""
_WAY_OUT = {
    "control": "Restore it from a copy, or remove its folder: the next sync writes it anew.",
    "silver": "Remove its folder: the next sync builds it anew from bronze.",
    "history": "Remove its folder: the next apply builds it anew from bronze.",
    "bronze": "Restore it from a copy; or remove its folder and run `cdc-assets reset`.",
    "facts": "Restore it from a copy: nothing else knows its events.",
    "plans": "Restore it from a copy; or run `cdc-assets reset` for the tables that a chunked"
    " snapshot is read of.",
    "": "Restore the file that it names from a copy.",
}


@contextmanager
def lake_failures(uri: str) -> Iterator[None]:
    """Let what a table's library raises out as one of our errors, where it is about the lake.

    Raises `LakeUnavailableError` and `LakeDamagedError`; what is neither passes as it is, lost
    conflicts among it.
    """
    try:
        yield
    except CdcError:
        raise
    except Exception as error:
        ours = lake_error(error, uri)
        if ours is None:
            raise
        raise ours from error


def is_conflict(error: Exception) -> bool:
    """Whether a commit failed because another writer was first, and not for what it is.

    delta-rs reports a conflict that it finds while merging under its base class, and an
    unsupported feature, an append-only table or a full disk under the class of conflicts.
    """
    text = str(error).lower()
    if isinstance(error, CommitFailedError):
        return not _has(text, (*_NO_CONFLICT, *_FULL, *_NO_FOLDER, *_DENIED, *_DENIED_BY_STORE))
    return isinstance(error, DeltaError) and "conflict" in text


def lake_error(error: Exception, uri: str) -> CdcError | None:
    """What a failure says about the table at `uri`, or None where it is not about the lake."""
    # A lost conflict is no failure, and a lost connection is the source's or the JVM's.
    if not _is_of_lake(error) or isinstance(error, ConnectionError) or is_conflict(error):
        return None
    text = str(error).lower()
    reason, place = _reason(str(error)), _without_queries(uri)
    if _has(text, _FULL):
        return LakeUnavailableError(
            f"there is no space left for {place} ({reason})",
            hint="Make room there and run it again: what was written half-way counts for nothing.",
        )
    if _has(text, _NO_FOLDER):
        return LakeUnavailableError(
            f"{place} cannot be a folder ({reason})",
            hint="`lake` in tables.yaml is a folder, or nothing yet: does a file stand in its way?",
        )
    if _has(text, (*_DENIED, *_DENIED_BY_STORE)):
        return LakeUnavailableError(
            f"{place} may not be read or written ({reason})",
            hint="Give this user, or the credentials in `storage_options`, the right to do both.",
        )
    store = _has(text, _UNREACHABLE)
    if _has(text, _DAMAGED) and not store:
        return LakeDamagedError(f"{place} is damaged ({reason})", hint=_WAY_OUT[kind_of(uri)])
    if store or _has(text, _OTHERWISE):
        return LakeUnavailableError(
            f"{place} cannot be reached ({reason})",
            hint="Check `lake` and `storage_options` in tables.yaml, and the way there.",
        )
    return None


def _is_of_lake(error: Exception) -> bool:
    """Whether its class is one that reports a lake: any other's text may be of a value, or ours."""
    libraries = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, (DeltaError, OSError)) or not libraries.isdisjoint(_SPARK)


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _reason(text: str) -> str:
    """Its first line and causes, without what an address or a store may say of a secret."""
    causes = (first_line(part) for part in text.split(_CHAIN)[1:])
    line = ": ".join([first_line(text), *filter(None, causes)])
    line = _SIGNED.sub(r"\1=…", _without_queries(line))
    return line if len(line) <= REASON_LENGTH_MAX else f"{line[: REASON_LENGTH_MAX - 1]}…"


def _without_queries(text: str) -> str:
    return _QUERY.sub(r"\1", text)
