"""Checks that a sync gives with what it writes: red ones fail the run that finds them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg

from cdc_assets.errors import (
    DataLossError,
    SchemaChangedError,
    TablePausedError,
    UnsupportedColumnError,
)
from cdc_assets.orchestration.metadata import runbook_entry
from cdc_assets.orchestration.translator import BRONZE, Translator

if TYPE_CHECKING:
    from cdc_assets.ingest.outcome import TableOutcome

NO_GAP = "no_gap"
SCHEMA_FITS = "schema_fits"

PAUSED_TEXT = "nobody looks: tables.yaml has it paused, or no longer has it."
"""Of a table that a run was asked for and left out."""

_MISFITS = (SchemaChangedError, UnsupportedColumnError)
_DESCRIPTIONS = {
    NO_GAP: "No change was removed by CDC cleanup before it was read.",
    SCHEMA_FITS: "Bronze can hold every column of the source table.",
}


def sync_check_specs(translator: Translator) -> Iterator[dg.AssetCheckSpec]:
    """Both checks of every bronze table."""
    for table in translator.settings.tables:
        for name, description in _DESCRIPTIONS.items():
            yield dg.AssetCheckSpec(
                name,
                asset=translator.asset_key(BRONZE, table),
                blocking=True,
                description=description,
            )


def sync_checks(key: dg.AssetKey, outcome: "TableOutcome") -> Iterator[dg.AssetCheckResult]:
    """What a sync of a table says: red for a loss or a misfit, a warning where nobody looked."""
    error = outcome.error
    if isinstance(error, DataLossError):
        yield _red(key, NO_GAP, str(error), error.code)
    elif (unknown := _unknown(outcome)) is not None:
        yield _red(key, NO_GAP, *unknown, severity=dg.AssetCheckSeverity.WARN)
    elif outcome.gap is not None:
        text = f"{outcome.gap} To turn this green: cdc-assets acknowledge, with database and table."
        yield _red(key, NO_GAP, text, DataLossError.code)
    else:
        yield _green(key, NO_GAP, "Every change since the snapshot was read.")
    if isinstance(error, _MISFITS):
        yield _red(key, SCHEMA_FITS, str(error), error.code)
    elif (unknown := _unknown(outcome)) is not None:
        yield _red(key, SCHEMA_FITS, *unknown, severity=dg.AssetCheckSeverity.WARN)
    else:
        yield _green(key, SCHEMA_FITS, "Bronze holds every column that was read.")


def paused_checks(key: dg.AssetKey) -> Iterator[dg.AssetCheckResult]:
    """What is said of a table that stands still."""
    for name in _DESCRIPTIONS:
        text, code = f"Not known: {PAUSED_TEXT}", TablePausedError.code
        yield _red(key, name, text, code, severity=dg.AssetCheckSeverity.WARN)


def _unknown(outcome: "TableOutcome") -> tuple[str, str] | None:
    """Why nobody could look, and its code; None where somebody has."""
    if outcome.error is not None:
        return f"Not known: {outcome.error}", outcome.error.code
    if outcome.work == "waiting":
        return f"Not known: {outcome.warnings[0]}", "waiting"
    return None


def _red(
    key: dg.AssetKey,
    name: str,
    text: str,
    code: str,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=False,
        severity=severity,
        description=text,
        metadata={"cdc/code": code, "cdc/runbook": runbook_entry(code)},
    )


def _green(key: dg.AssetKey, name: str, text: str) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=True,
        description=text,
        metadata={"cdc/code": name},
    )
