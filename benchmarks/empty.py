"""One asset that does nothing, run in process: what Dagster alone costs."""

import dagster as dg


@dg.asset
def nothing() -> None:
    """Do nothing."""


defs = dg.Definitions(
    assets=[nothing],
    jobs=[dg.define_asset_job("empty", selection=[nothing])],
    executor=dg.in_process_executor,
)
