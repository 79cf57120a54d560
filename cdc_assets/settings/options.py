"""The options of a stream, declared once: validation, reference page and settings come from here.

Many are settings of `tables.yaml` under the name that Spark's users expect: those take their help,
default and limits from the setting. Names ignore case, as Spark's options do. No option holds a
secret: Spark shows options in plans and on its pages.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from cdc_assets.errors import SettingsError
from cdc_assets.lsn import Lsn
from cdc_assets.settings.helps import helps_of
from cdc_assets.settings.load import ENV_PREFIX, FILE_PREFIX
from cdc_assets.settings.model import DatabaseSettings
from cdc_assets.settings.tables import DataLossPolicy, TableDefaults, TableSettings

BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
"""All that a boolean option may say."""

AUTO = "auto"
EARLIEST, LATEST = "earliest", "latest"
_SECRETS = ("connectionstring", "password", "pwd", "odbcconnectionstring")

Home = Literal["stream", "database", "table"]


class UnknownOptionWarning(UserWarning):
    """An option that nobody declared: misspelt, or of another program."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, its type and default as text for people, its help, its validation.

    `home` says whose setting it is, and `setting` which; those of a stream are settings of none.
    """

    name: str
    type: str
    default: str
    help: str
    read: Callable[[str], Any]
    home: Home = "stream"
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """What was given, validated: settings of the table and its database, and the stream's own."""

    stream: Mapping[str, Any] = field(default_factory=dict)
    database: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """One of the stream's own."""
        return self.stream.get(name, default)


def read_options(given: Mapping[str, str | None]) -> Options:
    """Validate options; raises `SettingsError`, and warns of unknown ones, without their values."""
    found: dict[Home, dict[str, Any]] = {"stream": {}, "database": {}, "table": {}}
    for name, value in given.items():
        option = _BY_NAME.get(name.lower())
        if option is None:
            _unknown(name)
        elif value is not None:
            found[option.home][option.setting or option.name] = _read(option, value)
    if "table" not in found["stream"]:
        for lacking in [n for n in ("connection", "captureInstance") if not _has(found, n)]:
            raise SettingsError(
                f"the option {lacking} is missing",
                hint="Name the source with `connection` and `captureInstance`, or a table of"
                " tables.yaml with `table`.",
            )
    return Options(**found)


def _has(found: Mapping[Home, Mapping[str, Any]], name: str) -> bool:
    option = _BY_NAME[name.lower()]
    return (option.setting or option.name) in found[option.home]


def _unknown(name: str) -> None:
    if name.lower() in _SECRETS:
        raise SettingsError(
            f"{name} is no option here, since Spark shows options to whoever sees its pages",
            hint="Write the connection string into a file that only you can read, and set the"
            f" option connection to {FILE_PREFIX}PATH; or {ENV_PREFIX}NAME for a variable.",
        )
    close = get_close_matches(name.lower(), _BY_NAME, n=1)
    meant = f" Did you mean {_BY_NAME[close[0]].name}?" if close else ""
    warnings.warn(
        f"unknown option {name}, which is ignored.{meant}", UnknownOptionWarning, stacklevel=4
    )


def _read(option: Option, value: str) -> Any:
    try:
        return option.read(str(value).strip())
    except (ValidationError, ValueError) as error:
        told = error.errors(include_input=False, include_url=False)[0]["msg"] if isinstance(
            error, ValidationError
        ) else str(error)  # fmt: skip
        raise SettingsError(
            f"option {option.name}: {told.removeprefix('Value error, ')}",
            hint=f"It is {option.type}; see docs/reference/options.md.",
        ) from None


def boolean(text: str) -> bool:
    """Read a boolean; raises ValueError for anything but `BOOLEANS`."""
    found = BOOLEANS.get(text.lower())
    if found is None:
        raise ValueError(f"a boolean is one of {', '.join(BOOLEANS)}")
    return found


def _names(text: str) -> list[str]:
    """Names with commas between them, or a JSON list."""
    if text.startswith("["):
        return [str(name) for name in json.loads(text)]
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(text: str) -> dict[str, str]:
    """`source=name` with commas between them, or a JSON object."""
    if text.startswith("{"):
        return {str(k): str(v) for k, v in json.loads(text).items()}
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("write source=name, with commas between them, or a JSON object")
    return {source.strip(): name.strip() for source, _, name in pairs}


def _starting(text: str) -> str | Lsn:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    if not text.lower().startswith("0x"):
        raise ValueError(f"{EARLIEST}, {LATEST} or an LSN, 0x and 20 hex digits")
    return _lsn(text)


def _lsn(text: str) -> Lsn:
    return Lsn.parse(text)


def _connection(text: str) -> str:
    # What it holds otherwise is not said: it may be the secret.
    for prefix in (FILE_PREFIX, ENV_PREFIX):
        if text.startswith(prefix) and len(text) > len(prefix):
            return text
    raise ValueError(
        f"it says where the connection string is: {FILE_PREFIX}PATH or {ENV_PREFIX}NAME"
    )


def _of(
    name: str,
    model: type[BaseModel],
    setting: str,
    type_text: str,
    *,
    before: Callable[[str], Any] = str,
    auto: bool = False,
) -> Option:
    """An option that is a setting: its help, default and limits are the setting's."""
    declared = model.model_fields[setting]
    kind: Any = Annotated[declared.annotation, *declared.metadata, name]
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def read(text: str) -> Any:
        if auto and text.lower() == AUTO:
            return None
        return adapter.validate_python(before(text))

    default = declared.default
    shown = "" if default in (None, PydanticUndefined) else str(default)
    home: Home = "database" if model is DatabaseSettings else "table"
    return Option(
        name,
        type_text,
        AUTO if auto and default is None else shown.lower() if isinstance(default, bool) else shown,
        " ".join(helps_of(model)[setting].split()),
        read,
        home,
        setting,
    )


OPTIONS: tuple[Option, ...] = (
    Option(
        "table",
        "text",
        "",
        "Table of `tables.yaml`, as `database.table`: its settings hold, options override them.",
        str,
    ),
    Option(
        "settings",
        "path",
        "",
        "The `tables.yaml` that `table` speaks of; `CDC_TABLES`, or the working folder's.",
        str,
    ),
    Option(
        "connection",
        f"{FILE_PREFIX}PATH or {ENV_PREFIX}NAME",
        "",
        "Where the ODBC connection string is. The string itself is refused: Spark shows options.",
        _connection,
        "database",
        "connection",
    ),
    _of("caFile", DatabaseSettings, "ca_file", "path"),
    _of("captureInstance", TableSettings, "capture_instance", "text"),
    _of("columns", TableSettings, "columns", "names, or a JSON list", before=_names),
    _of("rename", TableSettings, "rename", "source=name, or a JSON object", before=_pairs),
    Option(
        "startingLsn",
        "earliest, latest or 0x…",
        EARLIEST,
        "Where a stream without a snapshot starts: at all that CDC still holds, at what is new, or"
        " after an LSN.",
        _starting,
    ),
    Option(
        "snapshotLsn",
        "0x…",
        "",
        "Of `spark.read`: the LSN that the rows are stamped with, recorded before the read; by"
        " default the newest. The changes after it go on from the same `startingLsn`.",
        _lsn,
    ),
    _of("maxCommitsPerBatch", TableDefaults, "max_commits_per_batch", "number"),
    _of("numPartitions", DatabaseSettings, "num_partitions", "number or auto", auto=True),
    _of("arrowBatchSize", DatabaseSettings, "batch_rows", "rows"),
    _of("batchBytes", DatabaseSettings, "batch_bytes", "bytes"),
    _of("sourceTimeZone", DatabaseSettings, "source_time_zone", "text or auto", auto=True),
    Option(
        "failOnDataLoss",
        "boolean",
        "true",
        "Whether a loss of changes stops the stream; else they are skipped, and the facts say so.",
        lambda text: DataLossPolicy.FAIL if boolean(text) else DataLossPolicy.SKIP,
        "table",
        "on_data_loss",
    ),
    _of("includeCommandId", TableDefaults, "include_command_id", "boolean", before=boolean),
    _of("schemaChangePolicy", TableDefaults, "schema_change_policy", "continue or fail",
        before=str.lower),
    _of("isolationLevel", DatabaseSettings, "isolation", "read_committed or snapshot",
        before=str.lower),
    _of("lockTimeoutMs", DatabaseSettings, "lock_timeout_ms", "milliseconds"),
    _of("connectTimeout", DatabaseSettings, "connect_timeout_seconds", "seconds"),
    _of("maxValueBytes", DatabaseSettings, "max_value_bytes", "bytes"),
    _of("deletes", TableDefaults, "deletes", "hard or soft", before=str.lower),
    _of("changeDataFeed", TableDefaults, "change_data_feed", "boolean", before=boolean),
)  # fmt: skip
"""All options of a stream, in the order of the reference page."""

_BY_NAME = {option.name.lower(): option for option in OPTIONS}
