"""What an apply found and did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cdc_assets.contract import Column
from cdc_assets.errors import CdcError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.verdict import Hold


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """What an apply found and did; `waves` is how many it applied of an open chunked snapshot.

    `versions` are the rows that it has written into the table's history, if it has one; an `error`
    beside an `applied_lsn` is history's alone. `columns` are silver's and `keys` its key, where it
    was opened.
    """

    table: str
    bronze_found: bool
    rebuilt: bool = False
    overtaken: bool = False
    applied_lsn: Lsn | None = None
    finalized_until: datetime | None = None
    hold: Hold | None = None
    upserted: int = 0
    deleted: int = 0
    waves: int = 0
    versions: int = 0
    engine: str = ""
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    error: CdcError | None = None
