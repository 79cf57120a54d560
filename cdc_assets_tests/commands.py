"""`docs/cli.md`, written from the commands as they are declared.

`python -m cdc_assets_tests.commands` writes it anew; `cli/test_page.py` holds it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo

from cdc_assets.cli import app
from cdc_assets.cli.sync import LoadedTable
from cdc_assets.ingest.outcome import BackfillOutcome
from cdc_assets.planning.checkup import Finding
from cdc_assets.planning.discovery import Choice
from cdc_assets.planning.status import OpenSnapshot, TableStatus

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
_HEAD = """# The command line

`cdc-assets COMMAND --help` says what stands here. The settings are `tables.yaml` in the
working folder, or the file that `CDC_TABLES` names. Errors are one sentence on standard error that
says what to do, and its code in brackets.

| exit status | meaning |
|---|---|
| 0 | all is well |
| 1 | something is wrong, or failed: what is printed says what |
| 2 | the command line itself is wrong |

With `--json` standard output is one JSON document and nothing else. Times in it are in UTC
(`2026-01-31T09:30:00.000000Z`, always so long), what is not known is `null`. Fields are added,
never renamed or taken away.

*This page is written from `cdc_assets/cli`:* `python -m cdc_assets_tests.commands`
"""

STATUS = {
    "database": "key of the database in `tables.yaml`",
    "table": "key of the table",
    "state": "`never_loaded`, `loading` (a snapshot is open), `loaded`, `paused` (it stands"
    " still, as `tables.yaml` says), or `retired` (not in `tables.yaml` any more)",
    "bronze_complete_until": "every period that ends at or before it is complete in bronze",
    "silver_complete_until": "the same of silver",
    "on_time": "whether silver is within `finality.allowed_delay`; `null` of one that is paused or"
    " retired",
    "reason": "`on_time`, or what holds it back: `never_loaded`, `sync_stopped`, `capture_stopped`,"
    " `snapshot_open`, `snapshot_settling`, `behind_bronze`; `no_period_yet` while the first period"
    " is not due; `paused`, `retired`",
    "text": "the reason in a sentence, with what to do",
    "late_seconds": "seconds since `silver_complete_until`, or since the load where that is `null`",
    "last_sync": "when a sync last looked at the source for it",
    "last_rows": "rows of the last batch that had any, or of the snapshot where that was later",
    "last_rows_at": "when they were recorded",
    "engine": "engine that loaded them, and why it was chosen",
    "retention_headroom_hours": "hours that cleanup is behind the table's position, counted on"
    " since a sync last looked",
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

FINDING = {
    "check": "what was looked at: `packages`, `driver`, `spark`, `lake`, `bookkeeping`, `login`,"
    " `tls`, `grants`, `cdc`, `isolation`, `cleanup job`, `capture`, `clock`, and of each table"
    " `table`, `columns`, `large values`, `key`, `retention`, `partitions`,"
    " `paused`",
    "about": "of what: `here`, a package, a database or `<database>.<table>`",
    "level": "`ok`, `warn`, `fail`, or `not visible` to this login, which needs not see it",
    "text": "what was found; an error's code in brackets",
    "next_step": "what to do; empty where there is nothing to do",
}

CHOICE = {
    "key": "key that `tables.yaml` has it by",
    "instance": "capture instance",
    "source": "`<schema>.<table>` at the source",
    "rows": "rows by the catalog's own count; `null` where this login may not ask",
    "settings": "its settings, but for the defaults",
    "why": "why they are so: sentences",
    "left_out": "why it cannot be loaded and stands in a comment alone; empty where it can",
}

LOADED = {
    "table": "key of the table",
    "work": "`snapshot`, `opened` (a chunked snapshot), `changes`, `quiet`, `skipped`, `waiting` or"
    " `failed`",
    "rows": "rows that came to bronze",
    "upserted": "rows that silver got or changed",
    "deleted": "rows that left silver",
    "complete_until": "every period that ends at or before it is complete in silver",
    "hold": "what keeps that from moving on, as in `status`; `null` where nothing does",
    "error": "the error as it is printed otherwise",
}
BACKFILL = {
    "table": "key of the table",
    "snapshot": "LSN of the snapshot",
    "chunks_done": "chunks that are read",
    "chunks_total": "chunks in all; `null` before they are planned",
    "done": "whether every chunk is read",
    "paused": "whether it waits for something else than the next call",
    "state": "`done`, `running` (a limit of the call ended it), `waiting_headroom`,"
    " `waiting_capture`, `abandoned` or `no_snapshot`",
    "reason": "the state in words",
    "rows": "rows that this call has read",
    "rows_per_second": "of this call",
    "seconds_left": "what is left, at its pace",
}


def page() -> str:
    """The page as it has to be."""
    parts = [_HEAD, *_commands(), *_documents()]
    return "\n".join(parts)


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a command, as its function declares it."""

    name: str
    kind: Any
    told: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        return isinstance(self.told, ArgumentInfo)

    @property
    def usage(self) -> str:
        """How it is written."""
        if self.is_argument:
            many = "..." if "list" in str(self.kind) else ""
            name = self.name.upper() + many
            return name if self.default is inspect.Parameter.empty else f"[{name}]"
        # In `Annotated` the first of its names is where a default would be.
        own = [n for n in (self.told.default, *(self.told.param_decls or ())) if _is_option(n)]
        names = " / ".join(own or [f"--{self.name.replace('_', '-')}"])
        if self.kind is bool:
            return names
        if get_origin(self.kind) is Literal:
            return f"{names} {' or '.join(get_args(self.kind))}"
        plain = next((k for k in (*get_args(self.kind), self.kind) if k is not NoneType), str)
        return f"{names} {plain.__name__.upper().replace('STR', 'TEXT')}"

    @property
    def help(self) -> str:
        """What it does, and its default."""
        shown = not self.is_argument and self.kind is not bool and self.default not in _NO_DEFAULT
        return f"{self.told.help}{f' Default: `{self.default}`.' if shown else ''}"


def _is_option(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("-")


_NO_DEFAULT = (None, inspect.Parameter.empty)


def _parameters(function: Callable[..., Any]) -> list[_Parameter]:
    hints = get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind, told = get_args(hints[name])
        found.append(_Parameter(name, kind, told, parameter.default))
    return found


def _commands() -> Iterator[str]:
    for command in app.registered_commands:
        function = command.callback
        assert function is not None
        name = command.name or function.__name__
        parameters = _parameters(function)
        arguments = [one for one in parameters if one.is_argument]
        options = [one for one in parameters if not one.is_argument]
        words = ["cdc-assets", name, *(["[OPTIONS]"] if options else [])]
        yield f"## {name}\n"
        yield f"`{' '.join([*words, *(one.usage for one in arguments)])}`\n"
        yield f"{_paragraphs(function.__doc__ or '')}\n"
        if parameters:
            yield "| | |\n|---|---|"
            yield from (f"| `{one.usage}` | {one.help} |" for one in (*arguments, *options))
            yield ""


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _documents() -> Iterator[str]:
    yield "## What `status --json` prints\n"
    yield "`tables`: one object a table, in the order of `tables.yaml`, retired ones last.\n"
    yield from _fields(TableStatus, STATUS)
    yield "\nIts `snapshot`:\n"
    yield from _fields(OpenSnapshot, SNAPSHOT)
    yield "\n## What `doctor --json` prints\n"
    yield "`findings`: one object a line, in the order they were looked at.\n"
    yield from _fields(Finding, FINDING)
    yield "\n## What `discover --json` prints\n"
    yield "`database`: its key; `written` and `kept`: paths; `tables`: one object a table.\n"
    yield from _fields(Choice, CHOICE)
    yield "\n## What `sync --json` and `snapshot --json` print\n"
    yield "`tables`: one object a table; `warnings`: sentences; `snapshot` has `backfill` besides,"
    yield "what `backfill --json` prints, `null` of a table that was read as a whole.\n"
    yield from _fields(LoadedTable, LOADED)
    yield "\n## What `backfill --json` prints\n"
    yield from _fields(BackfillOutcome, BACKFILL)
    yield ""


def _fields(kind: type, told: dict[str, str]) -> Iterator[str]:
    names = [field.name for field in fields(kind)]
    assert names == list(told), f"{kind.__name__} has {names}"
    yield "| field | what it is |\n|---|---|"
    yield from (f"| `{name}` | {text} |" for name, text in told.items())


if __name__ == "__main__":
    PAGE.write_text(page())
