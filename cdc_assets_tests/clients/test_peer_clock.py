"""The peer's commit times where the server's clock is not UTC, and goes back an hour in a night."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from cdc_assets.sandbox.handle import Sandbox
from cdc_assets_tests.clients.peer import BACKENDS, SqlCdcClient, peer_client
from cdc_assets_tests.source import Server, Source

WINDOWS_ZONE, ZONE = "W. Europe Standard Time", ZoneInfo("Europe/Berlin")
BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""When three o'clock becomes two."""
MINUTES = (-2000, -170, -90, -40, -10, 10, 40, 90, 420)
COMMITS = [BACK + timedelta(minutes=minutes) for minutes in MINUTES]
FOLD = slice(3, 7)
"""The commits in the hour that is there twice."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A server with a clock of its own: no other test's may move."""
    state = tmp_path_factory.mktemp("clock")
    with Sandbox(state, capture_interval_seconds=0.0) as sandbox:
        admin = (state / "sales.admin.odbc").read_text().strip()
        reader = (state / "sales.odbc").read_text().strip()
        made = Source.create(Server(admin, reader, str(sandbox.ca_file), is_sandbox=True))
        _at(made, COMMITS[0] - timedelta(hours=1))
        made.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
        made.enable("t")
        for number, moment in enumerate(COMMITS):
            _at(made, moment)
            made.execute(f"INSERT INTO dbo.t (id) VALUES ({number})")
        made.captured()
        yield made


@pytest.fixture(scope="module", params=BACKENDS)
def client(request: pytest.FixtureRequest, source: Source) -> Iterator[SqlCdcClient]:
    with peer_client(request.param, source) as opened:
        yield opened


@pytest.fixture(scope="module")
def lsns(source: Source) -> list[str]:
    rows = source.rows("SELECT __$start_lsn FROM cdc.dbo_t_CT ORDER BY __$start_lsn")
    return ["0x" + bytes(lsn).hex().upper() for (lsn,) in rows]


def test_the_zone_is_the_servers(client: SqlCdcClient) -> None:
    assert client.clock() == (WINDOWS_ZONE, None)


def test_lsn_to_time_follows_the_commits(client: SqlCdcClient, lsns: list[str]) -> None:
    places = (4, 5, 8)
    found = [datetime.fromisoformat(client.lsn_to_time(lsns[place]) or "") for place in places]
    assert _minutes(found) == [MINUTES[place] for place in places]


@pytest.mark.parametrize("span", [(0, 9), (0, 3), (3, 6), (5, 7), (6, 7), (7, 9)], ids=str)
def test_changes_carry_utc(client: SqlCdcClient, lsns: list[str], span: tuple[int, int]) -> None:
    low, high = span
    batches = client.iter_changes("dbo_t", lsns[low], lsns[high - 1], ["id"], True, 100)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["id"] for row in rows] == list(range(low, high))
    assert _minutes([row["_commit_ts"] for row in rows]) == list(MINUTES[low:high])


def test_time_to_lsn_never_skips_a_commit(client: SqlCdcClient, lsns: list[str]) -> None:
    for place, moment in enumerate(COMMITS):
        found = client.time_to_lsn((moment + timedelta(minutes=2)).replace(tzinfo=None))
        assert found is not None
        assert found <= lsns[place]
        if place not in range(*FOLD.indices(len(COMMITS))):
            assert found == lsns[place]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_that_names_no_zone(source: Source, lsns: list[str], backend: str) -> None:
    """Before 2022 one offset is applied to all; the driver's client hands it to its tasks."""
    with peer_client(backend, source) as client:
        client.set_clock(None, -180)
        assert (client.clock(), client.timezone) == ((None, -180), "UTC-03:00")
        local = COMMITS[0].astimezone(ZONE).replace(tzinfo=None)
        told = datetime.fromisoformat(client.lsn_to_time(lsns[0]) or "")
        assert told - (local + timedelta(hours=3)) < timedelta(minutes=1)
        assert client.time_to_lsn(told + timedelta(seconds=1)) == lsns[0]
        client.refresh_clock()
        # The server's clock stands after the last commit, in winter.
        assert client.clock() == (None, 60)


def _at(source: Source, moment: datetime) -> None:
    """Set the server's clock."""
    seconds = (moment - datetime.now(UTC)).total_seconds()
    source.execute(
        f"EXEC sandbox.set_clock @zone = N'{WINDOWS_ZONE}', @shift_seconds = {seconds:.0f}"
    )


def _minutes(found: list[datetime]) -> list[int]:
    """From the hour that comes twice; the seconds a commit took are no matter."""
    return [round((at.replace(tzinfo=UTC) - BACK) / timedelta(minutes=1)) for at in found]
