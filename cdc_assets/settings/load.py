"""Reading `tables.yaml`: variables filled in, paths made absolute, errors with line and key."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from cdc_assets.errors import SettingsError
from cdc_assets.settings.lakes import scheme_of
from cdc_assets.settings.model import DatabaseSettings, Settings
from cdc_assets.settings.running import AlertSettings
from cdc_assets.settings.tables import TableSettings

SETTINGS_VARIABLE = "CDC_TABLES"
SETTINGS_FILE = "tables.yaml"

VARIABLE_PATTERN = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}"
"""A variable of the environment in a value."""

_VARIABLE = re.compile(VARIABLE_PATTERN)
FILE_PREFIX = "file:"
"""Of a connection string that stands in a file."""
ENV_PREFIX = "env:"
"""Of one that stands in an environment variable."""
_REFERENCE = "See docs/reference/settings.md."
_QUOTED = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")

NESTED_MAX = 32
"""Keys below each other, more than any setting has; an alias within itself has no end of them."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C where PyYAML came with it: a thousand tables in a seventh of the time."""

Path_ = tuple[str, ...]


def find_settings() -> Path:
    """The settings file: `CDC_TABLES`, else `tables.yaml` in the working folder."""
    return Path(os.environ.get(SETTINGS_VARIABLE) or SETTINGS_FILE).absolute()


def load_settings(path: Path | None = None) -> Settings:
    """Read and validate the settings; relative paths are relative to the file.

    `${NAME}` and `${NAME:-default}` come from the environment. Raises `SettingsError`.
    """
    file = path or find_settings()
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot read {file}: {error.strerror}",
            hint=f"Write it there, or set {SETTINGS_VARIABLE} to its path.",
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{file} is not UTF-8 text: {error.reason} at byte {error.start}",
            hint="Save it as UTF-8.",
        ) from None
    try:
        raw, lines = _parsed(text)
    except yaml.YAMLError as error:
        raise _broken_yaml(file, error) from None
    try:
        settings = Settings.model_validate(_fill(raw, file, (), lines))
    except ValidationError as error:
        raise _first_error(file, error, lines) from None
    return _absolute(settings, file.parent)


def _parsed(text: str) -> tuple[Any, dict[Path_, int]]:
    """What YAML says, and the line of every key, by its path."""
    loader = _Loader(text)
    try:
        lines: dict[Path_, int] = {}
        node = loader.get_single_node()
        _collect_lines(node, (), lines)
        return loader.construct_document(node) if node is not None else None, lines
    finally:
        loader.dispose()


def _broken_yaml(file: Path, error: yaml.YAMLError) -> SettingsError:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    # A tag, an anchor or an alias that it quotes may be a secret that nobody put in quotes.
    problem = _QUOTED.sub("'…'", getattr(error, "problem", None) or "it is not YAML")
    return SettingsError(
        problem,
        where=f"{file.name}{line}",
        hint="Indent with spaces, two for each level; quote a value that begins with a sign.",
    )


def _collect_lines(node: yaml.Node | None, path: Path_, lines: dict[Path_, int]) -> None:
    """Fill in the line of every key, by its path."""
    if node is not None and len(path) > NESTED_MAX:
        raise yaml.MarkedYAMLError(
            problem=f"more than {NESTED_MAX} keys below each other", problem_mark=node.start_mark
        )
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _collect_lines(value, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*path, str(index))
            lines[here] = value.start_mark.line + 1
            _collect_lines(value, here, lines)


def _fill(value: Any, file: Path, path: Path_, lines: dict[Path_, int]) -> Any:
    """Replace `${NAME}` in every text."""
    if isinstance(value, dict):
        return {str(k): _fill(v, file, (*path, str(k)), lines) for k, v in value.items()}
    if isinstance(value, list):
        return [_fill(v, file, (*path, str(i)), lines) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        text = os.environ.get(name, default)
        if text is None:
            raise SettingsError(
                f"{'.'.join(path)} needs the environment variable {name}, which is not set",
                where=f"{file.name}:{lines.get(path, 1)}",
                hint=f"Set it, or write ${{{name}:-default}}.",
            )
        return text

    return _VARIABLE.sub(replace, value)


def _first_error(file: Path, error: ValidationError, lines: dict[Path_, int]) -> SettingsError:
    """The first thing wrong, with its line, its key and what is allowed there."""
    first = error.errors(include_input=False, include_url=False)[0]
    path = tuple(str(part) for part in first["loc"] if part != "[key]")
    line = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)
    where = f"{file.name}:{line}"
    key = ".".join(path) or "the file"
    if first["type"] == "extra_forbidden":
        allowed = _allowed_keys(path[:-1])
        close = get_close_matches(path[-1], allowed, n=1)
        meant = f"Did you mean {close[0]}? " if close else ""
        return SettingsError(
            f"unknown key {key}", where=where, hint=f"{meant}Allowed: {', '.join(allowed)}."
        )
    if first["type"] == "missing":
        return SettingsError(f"{key} is missing", where=where, hint=f"Add it. {_REFERENCE}")
    message = first["msg"].removeprefix("Value error, ")
    return SettingsError(f"{key}: {message}", where=where, hint=_REFERENCE)


def _allowed_keys(path: Path_) -> list[str]:
    """The keys allowed below a path of the file."""
    model: Any = Settings
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            break
        field = model.model_fields.get(part)
        if part in ("databases", "tables"):
            model = {"databases": DatabaseSettings, "tables": TableSettings}[part]
        elif field is not None:
            model = next(
                (m for m in (field.annotation, *getattr(field.annotation, "__args__", ()))
                 if isinstance(m, type) and issubclass(m, BaseModel)),
                model,
            )  # fmt: skip
    return sorted(model.model_fields)


def _absolute(settings: Settings, folder: Path) -> Settings:
    """Every relative path made absolute from the folder of the file."""

    def path(value: str) -> str:
        return value if scheme_of(value) else str((folder / value).resolve())

    def secret(value: str) -> str:
        if not value.startswith(FILE_PREFIX):
            return value
        return FILE_PREFIX + path(value.removeprefix(FILE_PREFIX))

    def database(db: DatabaseSettings) -> DatabaseSettings:
        alerts = db.alerts
        if alerts is not None:
            alerts = alerts.model_copy(update={"webhook": secret(alerts.webhook)})
        return db.model_copy(
            update={
                "connection": secret(db.connection),
                "lake": path(db.lake),
                "ca_file": path(db.ca_file) if db.ca_file else None,
                "alerts": alerts,
            }
        )

    return Settings(databases={key: database(db) for key, db in settings.databases.items()})


def connection_text(database: DatabaseSettings, *, where: str) -> str:
    """The connection string itself, read from the file or variable that the settings name.

    Raises `SettingsError` when there is none; never with what it holds.
    """
    return secret_text(
        database.connection,
        "the connection string",
        where=where,
        hint="Start the sandbox with `cdc-assets sandbox`, or set `connection` in tables.yaml.",
    )


def webhook_url(alerts: AlertSettings, *, where: str) -> str:
    """The URL of the webhook itself; raises `SettingsError` when there is none."""
    hint = "Write the URL into it, or set `alerts.webhook` in tables.yaml."
    return secret_text(alerts.webhook, "the webhook's URL", where=where, hint=hint)


def secret_text(value: str, what: str, *, where: str, hint: str) -> str:
    """A secret that is written in the settings, or in a file or variable that they name.

    Raises `SettingsError` when there is none, with `hint` where the file is missing; never with
    what it holds.
    """
    if value.startswith(ENV_PREFIX):
        return _from_environment(value.removeprefix(ENV_PREFIX), what, where)
    if not value.startswith(FILE_PREFIX):
        return value
    file = Path(value.removeprefix(FILE_PREFIX))
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(
            f"cannot read {what} from {file}: {error.strerror}", where=where, hint=hint
        ) from None
    except UnicodeDecodeError:
        # Its own text would show a part of what it could not read.
        raise SettingsError(
            f"{file} is not UTF-8 text", where=where, hint=f"Save {what} as UTF-8."
        ) from None
    if not text:
        raise SettingsError(f"{file} is empty", where=where, hint=f"Write {what} into it.")
    return text


def _from_environment(name: str, what: str, where: str) -> str:
    if not (text := os.environ.get(name, "").strip()):
        raise SettingsError(
            f"the environment variable {name} is not set, or empty",
            where=where,
            hint=f"Put {what} into it, or into a file that is named as file:PATH.",
        )
    return text
