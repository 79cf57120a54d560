"""How a run fails: once, after all else is done, with every error in its text."""

from collections.abc import Mapping, Sequence

import dagster as dg

from cdc_assets.errors import CdcError


def failure(errors: Sequence[CdcError], metadata: Mapping[str, str] | None = None) -> dg.Failure:
    """One failure for the run; retried only where every error may pass by itself."""
    return dg.Failure(
        description="\n".join(dict.fromkeys(map(str, errors))),
        metadata=metadata,
        allow_retries=all(error.transient for error in errors),
    )
