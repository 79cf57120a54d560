"""Bronze and silver of one database as one multi-asset: one run is one poll."""

from collections.abc import Collection, Generator, Iterator

import dagster as dg

from cdc_assets.errors import CdcError
from cdc_assets.orchestration.failing import failure
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.sync_checks import (
    PAUSED_TEXT,
    paused_checks,
    sync_check_specs,
    sync_checks,
)
from cdc_assets.orchestration.translator import BRONZE, SILVER, Translator
from cdc_assets.orchestration.written import bronze_written, silver_written

Results = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]

_TOLD_TABLES_MAX = 100
"""Tables that one line of a run's log tells of: each line is an event, written by itself."""


def database_assets(translator: Translator) -> dg.AssetsDefinition:
    """The assets of one database; a run materializes any subset of them.

    Order in a run: every table, then the checks, then one Failure that names the failed tables,
    so that one table never stops another.
    """
    database = translator.database

    @dg.multi_asset(
        name=f"{database.key}_tables",
        specs=list(translator.table_specs()),
        check_specs=list(sync_check_specs(translator)),
        can_subset=True,
        pool=database.pool("sync"),
    )
    def tables(context: dg.AssetExecutionContext, cdc: CdcResource) -> Results:
        selected = context.selected_asset_keys
        bronze = _selected(translator, selected, BRONZE)
        silver = _selected(translator, selected, SILVER)
        failures: dict[str, CdcError] = {}
        checks: list[dg.AssetCheckResult] = []
        quiet: set[str] = set()
        if bronze:
            quiet = yield from _sync(context, cdc, translator, bronze, failures, checks)
        ready = [table for table in silver if table not in failures]
        if quiet.intersection(ready):
            # Of what this run did not touch, silver is only behind where another run left it so.
            due = quiet.intersection(cdc.due(database.key))
            ready = [table for table in ready if table not in quiet or table in due]
        if ready:
            yield from _apply(context, cdc, translator, ready, failures)
        yield from checks
        if failures:
            raise failure(failures)

    return tables


def _selected(translator: Translator, keys: Collection[dg.AssetKey], layer: str) -> list[str]:
    tables = translator.settings.tables
    return [table for table in tables if translator.asset_key(layer, table) in keys]


def _sync(
    context: dg.AssetExecutionContext,
    cdc: CdcResource,
    translator: Translator,
    tables: list[str],
    failures: dict[str, CdcError],
    checks: list[dg.AssetCheckResult],
) -> Generator[dg.MaterializeResult[None], None, set[str]]:
    """Bronze; gives the tables of which there was nothing to read."""
    try:
        report = cdc.sync(translator.database.key, tables)
    except CdcError as error:
        failures.update(dict.fromkeys(tables, error))
        return set()
    standing = [table for table in tables if report is None or table not in report.outcomes]
    for table in standing:
        checks.extend(paused_checks(translator.asset_key(BRONZE, table)))
    _tell(context, [f"{table}: {PAUSED_TEXT}" for table in standing])
    if report is None:
        return set()
    chunks = cdc.chunks_read(translator.database.key, report.chunked)
    for warning in report.warnings:
        context.log.warning(warning)
    told: list[str] = []
    for table in tables:
        outcome = report.outcomes.get(table)
        if outcome is None:
            continue
        if outcome.error is not None:
            context.log.error(str(outcome.error))
            failures[table] = outcome.error
        written = bronze_written(translator, report, outcome, chunks.get(table, (0, 0)))
        if written is not None:
            told.append(f"{table}: {outcome.rows} rows, {outcome.work}")
            yield written.result()
        checks.extend(sync_checks(translator.asset_key(BRONZE, table), outcome))
    _tell(context, told)
    return {table for table, outcome in report.outcomes.items() if outcome.work == "quiet"}


def _apply(
    context: dg.AssetExecutionContext,
    cdc: CdcResource,
    translator: Translator,
    tables: list[str],
    failures: dict[str, CdcError],
) -> Iterator[dg.MaterializeResult[None]]:
    try:
        outcomes = cdc.apply(translator.database.key, tables)
    except CdcError as error:
        failures.update(dict.fromkeys(tables, error))
        return
    told = [f"{table}: {PAUSED_TEXT}" for table in tables if table not in outcomes]
    for table, outcome in outcomes.items():
        if outcome.error is not None:
            context.log.error(str(outcome.error))
            failures[table] = outcome.error
        if outcome.overtaken:
            told.append(f"{table}: another run applied it first")
        elif (written := silver_written(translator, outcome)) is not None:
            told.append(f"{table}: {outcome.upserted} upserted, {outcome.deleted} deleted")
            yield written.result()
    _tell(context, told)


def _tell(context: dg.AssetExecutionContext, lines: list[str]) -> None:
    for start in range(0, len(lines), _TOLD_TABLES_MAX):
        context.log.info("\n".join(lines[start : start + _TOLD_TABLES_MAX]))
