"""How a run fails: once, after all else is done, with every error in its text."""

from collections import defaultdict
from collections.abc import Mapping

import dagster as dg

from cdc_assets.errors import CdcError

ERRORS = "cdc/errors"
"""Metadata of a failure: each error's code and text with its tables, for who reads it later."""


def failure(errors: Mapping[str, CdcError]) -> dg.Failure:
    """One failure for the run, of the errors by table; retried where each may pass by itself."""
    tables: dict[tuple[str, str], list[str]] = defaultdict(list)
    for table, error in errors.items():
        tables[error.code, str(error)].append(table)
    told = [{"code": code, "text": text, "tables": of} for (code, text), of in tables.items()]
    return dg.Failure(
        description="\n".join(dict.fromkeys(map(str, errors.values()))),
        metadata={ERRORS: dg.MetadataValue.json(told)},
        allow_retries=all(error.transient for error in errors.values()),
    )
