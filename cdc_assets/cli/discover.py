"""`cdc-assets discover`: `tables.yaml` and its schema, and Dagster's files, for a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from cdc_assets.cli.output import plain, print_json, print_table, say
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError
from cdc_assets.planning.discovery import Choice, choose_tables, key_of
from cdc_assets.quality.discovering import discover
from cdc_assets.settings import DatabaseSettings, find_settings, load_settings
from cdc_assets.settings.load import ENV_PREFIX, FILE_PREFIX, connection_text
from cdc_assets.settings.schema import SCHEMA_FILE, first_line, schema_text
from cdc_assets.sqlserver.connection import SourceConnection

SANDBOX_CONNECTION = "file:.cdc/sandbox/sales.odbc"
SANDBOX_CA = ".cdc/sandbox/ca.pem"
_BESIDE = ("workspace.yaml", "dagster.yaml")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for; `connection` is `file:PATH` or `env:NAME`."""

    connection: str
    ca_file: str | None
    lake: str
    name: str | None
    chunked_rows: int
    force: bool


def run_discover(wanted: Wanted, *, as_json: bool) -> int:
    """Write the files, and say what was chosen and why; exit status 1 where nothing can be."""
    target = find_settings()
    _check(wanted, target)
    ca_file = wanted.ca_file
    if ca_file is None and wanted.connection == SANDBOX_CONNECTION:
        ca_file = SANDBOX_CA
    found_name, found = discover(_source(wanted, ca_file, target.parent))
    choices = choose_tables(found, wanted.chunked_rows)
    if all(choice.left_out for choice in choices):
        _show(choices)
        raise CaptureInstanceUnknownError(
            f"none of the {len(choices)} captured tables can be loaded as it is",
            hint="Nothing was written.",
        )
    name = wanted.name or key_of(found_name)
    written, kept = _write(target, _text(name, wanted, ca_file, choices), force=wanted.force)
    load_settings(target)
    if as_json:
        print_json({"database": name, "written": written, "kept": kept, "tables": choices})
        return 0
    _show(choices)
    for path in written:
        say(f"Wrote {path}.")
    for path in kept:
        say(f"Kept {path}, which was there.")
    say(f"Next: cdc-assets doctor {name}, then cdc-assets sync {name} or cdc-assets up.")
    return 0


def _check(wanted: Wanted, target: Path) -> None:
    if not wanted.connection.startswith((FILE_PREFIX, ENV_PREFIX)):
        raise SettingsError(
            "--connection is file:PATH or env:NAME, never the connection string itself",
            hint="A command line is seen by everybody on the machine: write the string into a file"
            " that you alone may read, or into a variable.",
        )
    if wanted.name is not None and wanted.name != key_of(wanted.name):
        raise SettingsError(
            f"{wanted.name} is no key of a database", hint=f"Use {key_of(wanted.name)}, for one."
        )
    if target.exists() and not wanted.force:
        raise SettingsError(
            f"{target} is there already", hint="Nothing was written. Use --force to write it anew."
        )


def _source(wanted: Wanted, ca_file: str | None, folder: Path) -> SourceConnection:
    """How to reach the server, by what is to stand in the file; its paths are from its folder."""
    connection = wanted.connection
    if connection.startswith(FILE_PREFIX):
        connection = f"{FILE_PREFIX}{folder / connection.removeprefix(FILE_PREFIX)}"
    settings = DatabaseSettings.model_validate({"connection": connection, "tables": {"none": {}}})
    where = wanted.name or "discover"
    return SourceConnection(
        name=where,
        text=connection_text(settings, where=where),
        ca_file=str(folder / ca_file) if ca_file else None,
    )


def _text(name: str, wanted: Wanted, ca_file: str | None, choices: Sequence[Choice]) -> str:
    """The settings: a line a table, with why it is as it is; what cannot be loaded as a comment."""
    lines = [
        first_line(),
        "# What is loaded from where. One line adds a table; its key is its capture instance.",
        "databases:",
        f"  {name}:",
        f"    connection: {_flow(wanted.connection)}",
        *([f"    ca_file: {_flow(ca_file)}"] if ca_file else []),
        f"    lake: {_flow(wanted.lake)}",
        "    tables:",
    ]
    for choice in choices:
        rows = "" if choice.rows is None else f"; {choice.rows:,} rows"
        if choice.left_out:
            lines.append(f"      # {plain(choice.instance)} is left out: {plain(choice.left_out)}")
            continue
        lines.append(f"      # {plain(choice.source)}{rows}; {plain('; '.join(choice.why))}")
        lines.append(f"      {choice.key}: {_flow(dict(choice.settings))}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=1 << 20, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _write(target: Path, text: str, *, force: bool) -> tuple[list[str], list[str]]:
    """Write what is not there, or all with `force`; the files written and those kept.

    The schema is this release's, whatever is there: it is of no one's making but ours.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    contents = {target: text, target.parent / SCHEMA_FILE: schema_text()}
    for name in _BESIDE:
        contents[target.parent / name] = (files("cdc_assets.cli") / "files" / name).read_text()
    written, kept = [], []
    for path, content in contents.items():
        if path.exists() and not force and path.name != SCHEMA_FILE:
            kept.append(str(path))
            continue
        path.write_text(content, encoding="utf-8")
        written.append(str(path))
    return written, kept


def _show(choices: Sequence[Choice]) -> None:
    print_table(
        ("table", "source", "rows", "chosen"),
        [
            (
                choice.key if not choice.left_out else "",
                choice.source,
                "" if choice.rows is None else f"{choice.rows:,}",
                f"left out: {choice.left_out}" if choice.left_out else "; ".join(choice.why),
            )
            for choice in choices
        ],
        ("rows",),
    )
