"""When a copy began to be read, as people write it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cdc_assets.errors import SeedRefusedError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.seeds import AsOf

NOON = datetime(2026, 1, 31, 12)
LSN = "0x0000002A000000010001"


@pytest.mark.parametrize(
    "given",
    [
        NOON,
        NOON.replace(tzinfo=UTC),
        datetime(2026, 1, 31, 14, 30, tzinfo=timezone(timedelta(hours=2, minutes=30))),
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        " 2026-01-31T07:00:00-05:00 ",
    ],
    ids=str,
)
def test_a_time_is_utc_unless_it_says_so(given: str | datetime) -> None:
    assert AsOf.of(given) == AsOf(time=NOON)
    assert str(AsOf.of(given)) == "2026-01-31 12:00:00", "by which a rerun is known"


@pytest.mark.parametrize("given", [LSN, LSN.lower(), Lsn(LSN)], ids=repr)
def test_an_lsn(given: str | Lsn) -> None:
    assert AsOf.of(given) == AsOf(lsn=Lsn(LSN))
    assert str(AsOf.of(given)) == LSN


@pytest.mark.parametrize("given", ["yesterday", "0x12", "", "12:00"])
def test_anything_else_is_refused(given: str) -> None:
    with pytest.raises(SeedRefusedError, match="neither a time nor an LSN"):
        AsOf.of(given)
