"""`docs/cli.md`, written from the commands as they are declared.

`python -m cdc_assets_tests.commands` writes it anew; `cli/test_page.py` holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from cdc_assets.cli import app
from cdc_assets.planning.status import OpenSnapshot, TableStatus

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_HEAD = """# The command line

`cdc-assets COMMAND --help` says what stands here. The settings are `tables.yaml` in the working
folder, or the file that `CDC_TABLES` names. Errors are one sentence on standard error that says what
to do, and its code in brackets.

| exit status | meaning |
|---|---|
| 0 | all is well |
| 1 | something is wrong, or failed: what is printed says what |
| 2 | the command line itself is wrong |

With `--json` standard output is one JSON document and nothing else. Times in it are in UTC
(`2026-01-31T09:30:00Z`), what is not known is `null`. Fields are added, never renamed or taken away.

*This page is written from `cdc_assets/cli`:* `python -m cdc_assets_tests.commands`
"""

STATUS = {
    "database": "key of the database in `tables.yaml`",
    "table": "key of the table",
    "state": "`never_loaded`, `loading` (a snapshot is open), `loaded`, or `retired` (not in"
    " `tables.yaml` any more)",
    "bronze_complete_until": "every period that ends at or before it is complete in bronze",
    "silver_complete_until": "the same of silver",
    "on_time": "whether silver is within `finality.allowed_delay`; `null` of a retired table",
    "reason": "`on_time`, or what holds it back: `never_loaded`, `sync_stopped`, `capture_stopped`,"
    " `snapshot_open`, `snapshot_settling`, `behind_bronze`; `retired`",
    "text": "the reason in a sentence, with what to do",
    "late_seconds": "seconds since `silver_complete_until`",
    "last_sync": "when a sync last looked at the source for it",
    "last_rows": "rows of the last batch that had any, or of the snapshot where that was later",
    "last_rows_at": "when they were recorded",
    "engine": "engine that loaded them, and why it was chosen",
    "retention_headroom_hours": "hours that cleanup was behind the table's position, at the last"
    " sync that had the figure",
    "capture_lag_seconds": "seconds that capture was behind the server's clock, at the last sync",
    "snapshot": "the open snapshot, else `null`",
    "gaps": "lost changes that nobody has acknowledged: `start`, `end`, `event`, `lsn` of each",
}
SNAPSHOT = {
    "mode": "`full`, or `chunked`",
    "lsn": "the LSN it was opened at",
    "waves_done": "waves of chunks that are read; `null` of a whole one",
    "waves_total": "waves in all, by `num_partitions`; `null` before the chunks are planned",
    "chunks_done": "chunks that are read",
    "chunks_total": "chunks in all",
}


def page() -> str:
    """The page as it has to be."""
    parts = [_HEAD, *_commands(), *_documents()]
    return "\n".join(parts)


def _commands() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        yield f"## {name}\n"
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        named = " ".join(_usage(p) for p in arguments)
        yield f"`cdc-assets {name}{' [OPTIONS]' if _options(command) else ''}{_before(named)}`\n"
        yield f"{_paragraphs(command.help)}\n"
        rows = [(_usage(p), p.help) for p in arguments] + [
            (_option(p), _help(p)) for p in _options(command)
        ]
        if rows:
            yield "| | |\n|---|---|"
            yield from (f"| `{first}` | {second} |" for first, second in rows)
            yield ""


def _options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden]


def _usage(argument: Any) -> str:
    name = argument.name.upper()
    text = name if argument.required else f"[{name}]"
    return f"{text}..." if argument.nargs == -1 else text


def _before(text: str) -> str:
    return f" {text}" if text else ""


def _option(option: Any) -> str:
    names = " / ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    choices = getattr(option.type, "choices", None)
    return f"{names} {' or '.join(choices) if choices else option.type.name.upper()}"


def _help(option: Any) -> str:
    shown = option.default is not None and not option.is_flag and not option.required
    return f"{option.help}{f' Default: `{option.default}`.' if shown else ''}"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _documents() -> Iterator[str]:
    yield "## What `status --json` prints\n"
    yield "`tables`: one object a table, in the order of `tables.yaml`, retired ones last.\n"
    yield from _fields(TableStatus, STATUS)
    yield "\nIts `snapshot`:\n"
    yield from _fields(OpenSnapshot, SNAPSHOT)
    yield ""


def _fields(kind: type, told: dict[str, str]) -> Iterator[str]:
    names = [field.name for field in fields(kind)]
    assert names == list(told), f"{kind.__name__} has {names}"
    yield "| field | what it is |\n|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in told.items())


if __name__ == "__main__":
    PAGE.write_text(page())
