"""The command line: one file a command.

Commands import the rooms they use when they run, so that `--help` and a wrong option answer at
once; this is the one room, beside the Dagster resource, that does so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from cdc_assets.errors import CdcError

EXIT_FAILED = 1

app = typer.Typer(
    name="cdc-assets",
    help="SQL Server tables in a Delta lake, and for each one up to when it is complete."
    "\n\nExit status: 0 where all is well, 1 where something is wrong or failed, 2 where the"
    " command line itself is wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

EngineOption = Annotated[
    Literal["arrow", "spark"], typer.Option(help="Engine that reads and writes.")
]

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of tables.")
]


@app.command()
def demo(
    engine: EngineOption = "arrow",
    scale: Annotated[
        float, typer.Option(min=0.001, max=100, help="1 is 300,000 rows in three tables.")
    ] = 1.0,
) -> None:
    """Load, change and compare three tables, end to end, from empty."""
    from cdc_assets.cli.demo import run_demo  # noqa: PLC0415

    raise typer.Exit(run_demo(engine, scale))


@app.command()
def sandbox(
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.")] = 0,
    fresh: Annotated[bool, typer.Option(help="Start from empty.")] = False,
    rate: Annotated[
        float, typer.Option(min=0, help="Change its rows: so many transactions a second.")
    ] = 0.0,
) -> None:
    """Run the embedded SQL Server stand-in until Ctrl-C."""
    from cdc_assets.cli.sandbox import run_sandbox  # noqa: PLC0415

    raise typer.Exit(run_sandbox(port=port, fresh=fresh, rate=rate))


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
) -> None:
    """Start what the settings need and Dagster's page, and print its address, until Ctrl-C.

    That is Dagster, and the sandbox where tables.yaml uses it. Ctrl-C ends all that it started.
    """
    from cdc_assets.cli.up import run_up  # noqa: PLC0415

    raise typer.Exit(run_up(port))


@app.command()
def status(
    database: Annotated[
        str | None, typer.Argument(help="Database of tables.yaml; all by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say where each table stands, by what the lake holds: asks no server.

    Exit status 1 where a table is late, was never loaded, or has a gap that nobody acknowledged.
    """
    from cdc_assets.cli.status import run_status  # noqa: PLC0415

    raise typer.Exit(run_status(database, as_json=as_json))


@app.command()
def doctor(
    database: Annotated[
        str | None, typer.Argument(help="Database of tables.yaml; all by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look whether all is there that a sync needs, and say what to do where it is not.

    Packages, driver, login, TLS, grants, capture, retention, clocks, columns, the lake. Needs no
    more than the grants of the login that loads. Exit status 1 where a check fails.
    """
    from cdc_assets.cli.doctor import run_doctor  # noqa: PLC0415

    raise typer.Exit(run_doctor(database, as_json=as_json))


@app.command()
def discover(
    name: Annotated[
        str | None, typer.Argument(help="Key of the database; its name by default.")
    ] = None,
    connection: Annotated[
        str, typer.Option(help="Where the connection string is: file:PATH or env:NAME.")
    ] = "file:.cdc/sandbox/sales.odbc",
    ca_file: Annotated[
        str | None, typer.Option(help="Certificate authority of the server.")
    ] = None,
    lake: Annotated[str, typer.Option(help="Folder or URI of the lake.")] = "./lake",
    chunked_rows: Annotated[
        int, typer.Option(min=1, help="Rows from which a snapshot is read in chunks.")
    ] = 10_000_000,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files that are there.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write tables.yaml, its schema, workspace.yaml and dagster.yaml for a captured database.

    It says what it chose and why: keys, names, columns, snapshots in chunks; and leaves out what
    cannot be loaded. By default it looks at the sandbox.
    """
    from cdc_assets.cli.discover import Wanted, run_discover  # noqa: PLC0415

    wanted = Wanted(connection, ca_file, lake, name, chunked_rows, force)
    raise typer.Exit(run_discover(wanted, as_json=as_json))


@app.command()
def schema() -> None:
    """Print the JSON schema of tables.yaml, for editors: after an upgrade, into tables.schema.json.

    `discover` writes it, and names it in the first line of tables.yaml.
    """
    from cdc_assets.settings.schema import schema_text  # noqa: PLC0415

    sys.stdout.write(schema_text())


@app.command()
def sql(
    database: Annotated[
        str, typer.Argument(help="Database of tables.yaml; without that file, the source's name.")
    ],
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Tables, or <schema>.<table> of the source; all by default."),
    ] = None,
    login: Annotated[
        str | None, typer.Option(help="Login that reads; the connection string's by default.")
    ] = None,
    heartbeat: Annotated[bool, typer.Option(help="With a heartbeat table and its job.")] = True,
    retention_hours: Annotated[
        int | None, typer.Option(min=1, max=876_000, help="Hours that changes are kept.")
    ] = None,
    switch: Annotated[
        bool, typer.Option("--switch", help="Only a second capture instance of each table.")
    ] = False,
) -> None:
    """Print the script for an administrator: capture, grants, a heartbeat. It runs nothing.

    What is there already is left as it is, so the script may be run again. With --switch it makes
    a second capture instance of each table, for columns that were added; syncs follow to it.
    """
    from cdc_assets.cli.sql import Script, run_sql  # noqa: PLC0415

    wanted = Script(login, heartbeat, switch, retention_hours)
    raise typer.Exit(run_sql(database, tables or [], wanted))


@app.command()
def sync(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Tables; all by default.")] = None,
    resnapshot: Annotated[
        bool, typer.Option("--resnapshot", help="Read them anew; those in chunks are opened alone.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring bronze and silver up to the source once, without Dagster."""
    from cdc_assets.cli.sync import run_sync  # noqa: PLC0415

    raise typer.Exit(run_sync(database, tables or [], resnapshot=resnapshot, as_json=as_json))


@app.command()
def snapshot(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    table: Annotated[str, typer.Argument(help="Table to read anew.")],
    as_json: JsonOption = False,
) -> None:
    """Read a table anew, as a whole or in chunks to the last one, and apply it.

    Its changes go on where they were. A chunked snapshot that is open already is read on. Exit
    status 1 where it failed or has to wait; it says for what.
    """
    from cdc_assets.cli.snapshot import run_snapshot  # noqa: PLC0415

    raise typer.Exit(run_snapshot(database, table, as_json=as_json))


@app.command()
def backfill(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    table: Annotated[str, typer.Argument(help="Table with `snapshot: chunked`.")],
    max_waves: Annotated[
        int | None, typer.Option(min=1, help="Waves to read; all there are by default.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Begin no further wave after this.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read a table's open chunked snapshot on, beside its syncs."""
    from cdc_assets.cli.backfill import run_backfill  # noqa: PLC0415

    raise typer.Exit(run_backfill(database, table, max_waves, max_seconds, as_json=as_json))


@app.command()
def maintain(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Tables; all by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Put small files together, order silver by key, remove old versions and old facts."""
    from cdc_assets.cli.maintain import run_maintain  # noqa: PLC0415

    raise typer.Exit(run_maintain(database, tables or [], as_json=as_json))


@app.command()
def acknowledge(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    table: Annotated[str, typer.Argument(help="Table with a gap.")],
) -> None:
    """Say that a table's lost changes are known: its check `no_gap` turns green."""
    from cdc_assets.cli.sync import run_acknowledge  # noqa: PLC0415

    raise typer.Exit(run_acknowledge(database, table))


@app.command()
def reset(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    table: Annotated[str, typer.Argument(help="Table to start anew.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Give up what was loaded of a table, after a yes: its next sync takes a first snapshot."""
    from cdc_assets.cli.sync import run_reset  # noqa: PLC0415

    raise typer.Exit(run_reset(database, table, yes=yes))


@app.command()
def seed(
    database: Annotated[str, typer.Argument(help="Database of tables.yaml.")],
    table: Annotated[str, typer.Argument(help="Table that was never loaded.")],
    file: Annotated[Path, typer.Argument(help="A Parquet file, or a folder of them.")],
    as_of: Annotated[
        str,
        typer.Option(help="When the copy began to be read: a time (UTC unless it says) or an LSN."),
    ],
) -> None:
    """Make a copy that already exists the table's first snapshot: its changes go on from there."""
    from cdc_assets.cli.seed import run_seed  # noqa: PLC0415

    raise typer.Exit(run_seed(database, table, file, as_of))


def main() -> None:
    """Entry point: an error of ours is one sentence and exit status 1."""
    try:
        app()
    except CdcError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(error), markup=False)
        sys.exit(EXIT_FAILED)
