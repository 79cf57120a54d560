"""The job that keeps polling: seconds from a commit to silver, in place of a run a minute.

It is one step of one run, so it holds the pool of the database's syncs while it lasts, and it ends
at its minutes, at a stop signal, or with the first turn in which a table failed. Whatever ends it,
the schedule starts the next one, which goes on from what was committed.
"""

from collections.abc import Iterator, Sequence
from time import monotonic, sleep

import dagster as dg

from cdc_assets.errors import CdcError
from cdc_assets.orchestration.asking import database_tags
from cdc_assets.orchestration.failing import failure
from cdc_assets.orchestration.resources import CdcResource
from cdc_assets.orchestration.sync_checks import sync_checks
from cdc_assets.orchestration.translator import BRONZE, Translator
from cdc_assets.orchestration.written import bronze_written, silver_written
from cdc_assets.settings.running import ContinuousSettings

Events = Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]


class ContinuousConfig(dg.Config):
    """What one run may do otherwise than the settings say."""

    minutes: float | None = None
    """Minutes after which it ends."""
    poll_seconds: float | None = None
    """Seconds from one look at the source to the next."""


def continuous_name(database: str) -> str:
    """What the job of a database is called."""
    return f"{database}_continuous"


def continuous_job(translator: Translator, settings: ContinuousSettings) -> dg.JobDefinition:
    """`<db>_continuous`: bronze and silver of all tables, again and again."""
    database = translator.database

    @dg.op(
        name=f"{database.key}_keep_polling",
        pool=database.pool("sync"),
        out=dg.Out(dg.Nothing),
    )
    def keep_polling(
        context: dg.OpExecutionContext, cdc: CdcResource, config: ContinuousConfig
    ) -> Events:
        minutes = settings.minutes if config.minutes is None else config.minutes
        pause = settings.poll_seconds if config.poll_seconds is None else config.poll_seconds
        end = monotonic() + minutes * 60
        follower = _Follower(context, cdc, translator)
        while True:
            yield from follower.turn()
            left = end - monotonic()
            if left <= 0:
                break
            # A stop signal ends the sleep, and the run, at once.
            sleep(min(pause, left))
        context.log.info(f"{minutes:g} minutes are over; the schedule starts the next run.")

    @dg.job(
        name=continuous_name(database.key),
        description="Keep polling, and bring bronze and silver along each time.",
        tags=database_tags(database.key),
    )
    def continuous() -> None:
        keep_polling()

    return continuous


class _Follower:
    """The turns of one run; what a turn says again is told once."""

    def __init__(
        self, context: dg.OpExecutionContext, cdc: CdcResource, translator: Translator
    ) -> None:
        self._context = context
        self._cdc = cdc
        self._translator = translator
        # One connection and open tables for all turns: the process ends with the run.
        self._database = cdc.database(translator.database.key)
        self._told: dict[dg.AssetCheckKey, tuple[bool, str | None]] = {}
        self._warned: frozenset[str] = frozenset()

    def turn(self) -> Events:
        """One look: what was written, the checks that changed, then one failure."""
        try:
            turn = self._cdc.turn(self._database)
        except CdcError as error:
            raise failure(dict.fromkeys(self._translator.settings.tables, error)) from error
        failures: dict[str, CdcError] = {}
        checks: list[dg.AssetCheckResult] = []
        report = turn.report
        if report is not None:
            self._warn(report.warnings)
            chunks = self._cdc.chunks_read(self._translator.database.key, report.chunked)
            for table, outcome in report.outcomes.items():
                if outcome.error is not None:
                    failures[table] = outcome.error
                found = chunks.get(table, (0, 0))
                if written := bronze_written(self._translator, report, outcome, found):
                    yield written.event()
                checks += sync_checks(self._translator.asset_key(BRONZE, table), outcome)
        for table, applied in turn.applied.items():
            if applied.error is not None:
                failures[table] = applied.error
            if written := silver_written(self._translator, applied):
                yield written.event()
        yield from self._changed(checks)
        if failures:
            raise failure(failures)

    def _warn(self, texts: Sequence[str]) -> None:
        """Say what the turn before has not said."""
        for text in texts:
            if text not in self._warned:
                self._context.log.warning(text)
        self._warned = frozenset(texts)

    def _changed(self, checks: list[dg.AssetCheckResult]) -> Iterator[dg.AssetCheckEvaluation]:
        """Those that say something else than they did in this run."""
        for check in checks:
            if check.asset_key is None or check.check_name is None:
                continue
            key = dg.AssetCheckKey(check.asset_key, check.check_name)
            says = (check.passed, check.description)
            if self._told.get(key) == says:
                continue
            self._told[key] = says
            yield dg.AssetCheckEvaluation(
                asset_key=check.asset_key,
                check_name=check.check_name,
                passed=check.passed,
                severity=check.severity,
                description=check.description,
                metadata=check.metadata,
            )
