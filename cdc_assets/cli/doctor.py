"""`cdc-assets doctor`: whether everything that a sync needs is there, and what to do if not."""

from __future__ import annotations

from cdc_assets.cli.output import print_json, print_table, say
from cdc_assets.cli.sync import database_of, every_database
from cdc_assets.planning.checkup import Finding, Level, is_sick
from cdc_assets.quality.doctor import examine, examine_machine


def run_doctor(key: str | None, *, as_json: bool) -> int:
    """Examine one database or all; exit status 1 where something fails."""
    databases = [database_of(key, [])] if key else every_database()
    found = examine_machine()
    for database in databases:
        found += examine(database)
    if as_json:
        print_json({"findings": found})
    else:
        _show(found)
    return int(is_sick(found))


def _show(found: list[Finding]) -> None:
    print_table(
        ("", "check", "of", "found"),
        [(str(one.level), one.check, one.about, one.text) for one in found],
        (),
    )
    for one in found:
        if one.level in (Level.WARN, Level.FAIL) and one.next_step:
            say(f"{one.about}: {one.check}: {one.next_step}")
    failing = sum(one.level is Level.FAIL for one in found)
    warning = sum(one.level is Level.WARN for one in found)
    say(f"{failing} of {len(found)} checks fail, {warning} warn.")
