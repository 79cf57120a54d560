"""Which engine does a piece of work, and why."""

from __future__ import annotations

from cdc_assets.engines.spark.installed import require_pyspark
from cdc_assets.errors import TableFeatureError
from cdc_assets.planning.plans import EngineChoice
from cdc_assets.settings import DatabaseSettings, EngineName
from cdc_assets.settings.lakes import wants_one_engine


def choose(
    settings: DatabaseSettings, table: str, beyond_arrow: str = "", rows: int | None = None
) -> EngineChoice:
    """The engine of the settings; with `auto`, Spark for what is beyond arrow or one machine.

    `beyond_arrow` says what of the work only Spark can do, as the end of a sentence; `rows` are
    the planned ones, None where nobody counted. Raises `TableFeatureError` where the work is
    beyond arrow and arrow is all that settings and lake allow, and `ExtraMissingError` where Spark
    is not there.
    """
    wanted = settings.engine_of(table)
    is_fixed = wanted is EngineName.ARROW or wants_one_engine(settings.lake)
    if beyond_arrow and wanted is not EngineName.SPARK and is_fixed:
        raise TableFeatureError(
            f"the arrow engine cannot {beyond_arrow}",
            hint=f"Set `engine: spark`{_or_auto(settings)} for the table. A new column may be left"
            " out instead: list the other columns under `columns`.",
        )
    if wanted is not EngineName.AUTO:
        return EngineChoice(wanted, "settings")
    if beyond_arrow:
        require_pyspark()
        return EngineChoice(EngineName.SPARK, f"auto: arrow cannot {beyond_arrow}")
    spark = settings.spark
    if not spark.is_cluster:
        return EngineChoice(EngineName.ARROW, "auto: one machine")
    if rows is None or rows < spark.min_rows:
        return EngineChoice(EngineName.ARROW, f"auto: below {spark.min_rows:,} rows")
    require_pyspark()
    return EngineChoice(EngineName.SPARK, f"auto: {rows:,} rows, from {spark.min_rows:,}")


def _or_auto(settings: DatabaseSettings) -> str:
    return "" if wants_one_engine(settings.lake) else " or `auto`"
