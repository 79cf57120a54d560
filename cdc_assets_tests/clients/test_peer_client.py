"""SqlCdcClient of mssql-cdc-pyspark: each public method, through both of its drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.clients import history as h
from cdc_assets_tests.clients.history import History, moved, tiles, utc_text
from cdc_assets_tests.clients.peer import BACKENDS, SqlCdcClient, peer_client
from cdc_assets_tests.source import Server, Source

pytestmark = pytest.mark.sqlserver
ALWAYS = "0x" + "F" * 20
NEVER = "0x" + "0" * 20


@pytest.fixture(scope="module")
def history(server: Server) -> History:
    """Two instances of one table, three changes of its columns, thirty-six commits."""
    made = History.create(Source.create(server))
    made.commit(15)
    made.execute(h.ADDED)
    made.commit(7)
    made.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'stock',"
        f" @role_name = NULL, @supports_net_changes = 0, @capture_instance = N'{h.SECOND}'",
        h.WIDENED,
        *grants(made.source, f"{h.SECOND}_CT"),
    )
    made.commit(7)
    made.drop("gone")
    made.commit(7)
    made.settle()
    return made


@pytest.fixture(scope="module", params=BACKENDS)
def client(request: pytest.FixtureRequest, history: History) -> Iterator[SqlCdcClient]:
    with peer_client(request.param, history.source) as client:
        yield client


def grants(source: Source, change_table: str) -> list[str]:
    """What the peer's login needs for a change table; an administrator needs nothing."""
    if source.server.reader == source.server.admin:
        return []
    return [f"GRANT SELECT ON cdc.[{change_table}] TO [{source.server.reader_login}]"]


def rows_of(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_public_method_is_here() -> None:
    """A method that a later version brings must get a test."""
    names = {name for name in dir(SqlCdcClient) if not name.startswith("_")}
    files = (Path(__file__), Path(__file__).with_name("peer.py"))
    used = [name for file in files for name in re.findall(r"client\.(\w+)", file.read_text())]
    assert names - set(used) == set()


# --- LSNs and times ------------------------------------------------------------------------------


def test_max_lsn(client: SqlCdcClient, history: History) -> None:
    assert client.max_lsn() == history.mapping[-1][0]
    assert client.max_lsn() >= history.lsns[-1]


def test_min_lsn(client: SqlCdcClient, history: History) -> None:
    first, second = client.min_lsn(h.FIRST), client.min_lsn(h.SECOND)
    assert first <= history.lsns[0]
    assert history.lsns[21] < second <= history.lsns[22]
    with pytest.raises(ValueError, match="not found"):
        client.min_lsn("dbo_nobody")


@pytest.mark.parametrize("lsn", ["0x0000002D000000F80003", "0x0000002DFFFFFFFFFFFF"])
def test_increment_and_decrement(client: SqlCdcClient, lsn: str) -> None:
    assert client.increment_lsn(lsn) == moved(lsn, 1)
    assert client.decrement_lsn(lsn) == moved(lsn, -1)
    assert client.decrement_lsn(client.increment_lsn(lsn)) == lsn


def test_nth_commit_after(client: SqlCdcClient, history: History) -> None:
    known = [lsn for lsn, _ in history.mapping]
    for after in (NEVER, known[0], moved(known[3], 1), known[-2]):
        later = [lsn for lsn in known if lsn > after]
        for n in (1, 2, 5, 1000):
            assert client.nth_commit_after(after, n) == max(later[:n])
    assert client.nth_commit_after(known[-1], 1) is None


def test_lsn_to_time(client: SqlCdcClient, history: History) -> None:
    for lsn, local in history.mapping[::6]:
        assert client.lsn_to_time(lsn) == utc_text(local)
    assert client.lsn_to_time(moved(history.lsns[0], -1)) is None


def test_time_to_lsn(client: SqlCdcClient, history: History) -> None:
    first, last = history.mapping[0][1], history.mapping[-1][1]
    moments = [first + timedelta(seconds=s) for s in (-1, 0, 1, 2, 3600)]
    for moment in [*moments, last, datetime(2100, 1, 1)]:
        second = moment.replace(microsecond=0)
        known = [lsn for lsn, local in history.mapping if local <= second]
        assert client.time_to_lsn(moment) == max(known, default=None)


def test_clock(client: SqlCdcClient, history: History) -> None:
    assert (client.timezone, client.clock()) == ("UTC", ("UTC", None))
    client.refresh_clock()
    client.set_clock("UTC", None)
    assert client.clock() == ("UTC", None)
    assert client.ping(2) == pytest.approx([50.0, 50.0], abs=1000)
    assert (client.network_wait_ms() or 0) >= 0


# --- instances and columns -----------------------------------------------------------------------

TYPES = (
    "`id` INT, `name` STRING, `price` DECIMAL(10,2), `day` DATE, `seen` TIMESTAMP_NTZ, `gone` INT"
)


def test_captured_columns(client: SqlCdcClient) -> None:
    assert client.captured_columns(h.FIRST) == f"{TYPES}, `doubled` DECIMAL(12,2)"
    assert client.captured_columns(h.SECOND) == (f"{TYPES}, `doubled` DECIMAL(12,2), `extra` INT")
    with pytest.raises(ValueError, match="not found"):
        client.captured_columns("dbo_nobody")


def test_capture_instances(client: SqlCdcClient, history: History) -> None:
    client.forget_columns()
    first, second = client.capture_instances(h.FIRST)
    types = [one.partition(" ")[2] for one in TYPES.split(", `")]
    assert first == (h.FIRST, client.min_lsn(h.FIRST), list(h.COLUMNS), types, ("doubled",))
    columns = [*h.COLUMNS, "extra"]
    start = client.min_lsn(h.SECOND)
    assert second == (h.SECOND, start, columns, [*types, "INT"], ("doubled",))
    assert client.capture_instances(h.SECOND.upper()) == [first, second]


def test_ddl_history(client: SqlCdcClient, history: History) -> None:
    found = client.ddl_history(h.FIRST, NEVER, ALWAYS)
    assert [one.command for one in found] == [h.ADDED, h.WIDENED, h.DROPPED]
    for one, before in zip(found, (15, 22, 29), strict=True):
        assert history.lsns[before - 1] < one.lsn < history.lsns[before]
        at = max((lsn, local) for lsn, local in history.mapping if lsn <= one.lsn)[1]
        assert one.commit_ts == utc_text(at)
    assert client.ddl_history(h.SECOND, NEVER, ALWAYS) == found[1:]
    assert client.ddl_history(h.FIRST, found[0].lsn, found[1].lsn) == found[1:2]


def test_present_columns(client: SqlCdcClient) -> None:
    asked = ["ID", "gone", "doubled", "extra", "never", "name"]
    assert client.present_columns(h.FIRST, asked) == ["ID", "extra", "name"]


def test_source_table(client: SqlCdcClient) -> None:
    found = client.source_table(h.SECOND)
    assert found == ("dbo", "stock", ["id"], client.min_lsn(h.SECOND))
    assert client.source_table("dbo_parts")[:3] == ("dbo", "parts", ["region", "code"])


def test_key_types(client: SqlCdcClient) -> None:
    collation = "SQL_Latin1_General_CP1_CI_AS"
    assert client.key_types("dbo_parts", ["region", "code"]) == [
        f"varchar(10) COLLATE {collation}",
        "smallint",
    ]
    keys = ["id", "name", "price", "day", "seen"]
    types = ["int", "nvarchar(60)", "decimal(10,2)", "date", "datetime2(7)"]
    assert client.key_types(h.FIRST, keys) == types
    assert client.key_types(h.FIRST, ["seen", "nothing", "id"]) == [None, None, "int"]


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", [None, "snapshot"])
def test_key_range(client: SqlCdcClient, history: History, isolation: str | None) -> None:
    if isolation:
        allow = f"ALTER DATABASE [{history.source.name}] SET ALLOW_SNAPSHOT_ISOLATION ON"
        history.execute(allow)
    keys = sorted(history.rows)
    assert client.key_range("dbo", "stock", "id", isolation=isolation) == (keys[0], keys[-1])
    inside = [key for key in keys if -50 <= key < 500]
    found = client.key_range("dbo", "stock", "id", -50, 500, isolation)
    assert found == (inside[0], inside[-1])
    days = [row["day"] for row in history.rows.values()]
    assert client.key_range("dbo", "stock", "day") == (min(days), max(days))
    assert client.key_range("dbo", "nothing", "id") == (None, None)


def test_key_max(client: SqlCdcClient, history: History) -> None:
    assert client.key_max("dbo", "stock", ["id"]) == (max(history.rows),)
    last = history.parts[-1]
    assert client.key_max("dbo", "parts", ["region", "code"]) == (last["region"], last["code"])
    assert client.key_max("dbo", "nothing", ["id"]) is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_key_tiles(client: SqlCdcClient, history: History, count: int) -> None:
    keys = [(part["region"], part["code"]) for part in history.parts]
    expected = [tile[0] for tile in tiles(keys, count)[1:]]
    assert client.key_tiles("dbo", "parts", ["region", "code"], count) == expected
    ids = [(key,) for key in sorted(history.rows)]
    assert client.key_tiles("dbo", "stock", ["id"], count) == [t[0] for t in tiles(ids, count)[1:]]


def test_key_tiles_put_null_first(client: SqlCdcClient, history: History) -> None:
    keys = sorted((row["name"] for row in history.rows.values()), key=by_name)
    expected = [(tile[0],) for tile in tiles(keys, 3)[1:]]
    assert client.key_tiles("dbo", "stock", ["name"], 3) == expected


@pytest.mark.parametrize("width", [1, 64, 1000])
@pytest.mark.parametrize("bounds", [(None, None), (-70, 300)])
def test_key_buckets(
    client: SqlCdcClient, history: History, width: int, bounds: tuple[int | None, int | None]
) -> None:
    low, high = bounds
    keys = [k for k in history.rows if low is None or low <= k < (high or 0)]
    assert sorted(client.key_buckets("dbo", "stock", "id", "int", width, low, high)) == buckets(
        keys, width
    )


def test_key_buckets_of_days_and_of_the_whole(client: SqlCdcClient, history: History) -> None:
    days = [(row["day"] - datetime(1970, 1, 1).date()).days for row in history.rows.values()]
    assert sorted(client.key_buckets("dbo", "stock", "day", "date", 30)) == buckets(days, 30)
    assert client.key_buckets("dbo", "stock", None, None, 1) == [(0, len(history.rows), None)]


def test_row_estimate(client: SqlCdcClient, history: History) -> None:
    assert client.row_estimate("dbo", "stock") == len(history.rows)
    assert client.row_estimate("dbo", "parts") == len(history.parts)


@pytest.mark.parametrize("n", [0, 5, 47])
def test_key_bound(client: SqlCdcClient, history: History, n: int) -> None:
    keys = [(part["region"], part["code"]) for part in history.parts]
    names = ["region", "code"]
    types = client.key_types("dbo_parts", names)
    bounds = [(None, None), (keys[3], None), (None, keys[40]), (keys[14], keys[22])]
    for low, high in [*bounds, (("north", -1000), ("south", 1000))]:
        inside = [k for k in keys if (low is None or k >= low) and (high is None or k < high)]
        expected = inside[n] if n < len(inside) else None
        assert client.key_bound("dbo", "parts", names, types, low, high, n) == expected


@pytest.mark.parametrize(("low", "high"), [(None, None), (0, None), (None, 300), (-10, 400)])
def test_iter_table_by_integers(
    client: SqlCdcClient, history: History, low: int | None, high: int | None
) -> None:
    expected = [
        row
        for row in history.ordered()
        if (low is None or row["id"] >= low) and (high is None or row["id"] < high)
    ]
    bounds = [None if b is None else (b,) for b in (low, high)]
    found = rows_of(client.iter_table("dbo", "stock", h.LIVE, ["id"], None, *bounds, 10))
    assert sorted(found, key=lambda row: row["id"]) == expected


def test_iter_table_by_two_columns(client: SqlCdcClient, history: History) -> None:
    keys = [(part["region"], part["code"]) for part in history.parts]
    names = ["region", "code"]
    types = client.key_types("dbo_parts", names)
    cuts: list[Any] = [None, keys[5], keys[14], ("north", 1000), keys[40], None]
    found = [
        rows_of(client.iter_table("dbo", "parts", [*names, "label"], names, types, a, b, 7))
        for a, b in pairwise(cuts)
    ]
    assert [len(part) for part in found] == [5, 9, 10, 16, 8]
    key = lambda part: (part["region"], part["code"])  # noqa: E731
    assert sorted((row for part in found for row in part), key=key) == history.parts


def test_iter_table_by_a_nullable_name(client: SqlCdcClient, history: History) -> None:
    names = sorted((row["name"] for row in history.rows.values()), key=by_name)
    types = client.key_types(h.FIRST, ["name"])
    cut = (names[len(names) // 2],)
    halves = [
        rows_of(
            client.iter_table("dbo", "stock", ["name"], ["name"], types, *pair, 100, "snapshot")
        )
        for pair in ((None, cut), (cut, None))
    ]
    found = [sorted((row["name"] for row in half), key=by_name) for half in halves]
    middle = len(names) // 2
    assert found == [names[:middle], names[middle:]]


# --- the changes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("with_command_id", [True, False])
@pytest.mark.parametrize("span", [(0, -1), (3, 11), (20, 20)])
def test_iter_changes(
    client: SqlCdcClient, history: History, span: tuple[int, int], with_command_id: bool
) -> None:
    low, high = (history.lsns[place] for place in span)
    columns = [*h.COLUMNS, "doubled"]
    found = rows_of(client.iter_changes(h.FIRST, low, high, columns, with_command_id, 10))
    expected = history.changes(low, high)
    assert [(r["_start_lsn"], r["_operation"]) for r in found] == [
        (lsn, change.operation) for lsn, change in expected
    ]
    local = dict(history.mapping)
    for row, (lsn, change) in zip(found, expected, strict=True):
        # A column that is gone has no value in later changes; a computed one never has.
        assert {name: row[name] for name in columns} == {
            "gone": None,
            **change.row,
            "doubled": None,
        }
        assert row["_commit_ts"] == local[lsn]
        assert ("_command_id" in row) == with_command_id
    places = [(r["_start_lsn"], r.get("_command_id"), r["_seqval"], r["_operation"]) for r in found]
    assert len(set(places)) == len(places)


def test_iter_changes_of_the_newer_instance(client: SqlCdcClient, history: History) -> None:
    found = rows_of(client.iter_changes(h.SECOND, NEVER, ALWAYS, ["id", "extra"], True, 100))
    expected = history.changes(history.lsns[22], history.lsns[-1])
    assert [row["id"] for row in found] == [change.row["id"] for _, change in expected]
    assert {row["extra"] for row in found} == {None}


@pytest.mark.parametrize("count", [1, 2, 5, 9, 500])
def test_split_points(client: SqlCdcClient, history: History, count: int) -> None:
    low, high = history.lsns[2], history.lsns[-3]
    lsns = [lsn for lsn, _ in history.changes(low, high)]
    ends = [(tile[-1], moved(tile[-1], 1), len(tile)) for tile in tiles(lsns, count)]
    # The order of two tiles that end at one LSN is the server's choice.
    assert sorted(client.split_points(h.FIRST, low, high, count)) == sorted(ends)


def test_a_missing_grant_is_named(client: SqlCdcClient, history: History) -> None:
    source = history.source
    if source.server.reader == source.server.admin:
        pytest.skip("the tests' login on this server is an administrator, which needs no grant")
    source.execute(f"REVOKE SELECT ON cdc.[dbo_nothing_CT] FROM [{source.server.reader_login}]")
    with pytest.raises(PermissionError, match=r"GRANT SELECT ON cdc.\[dbo_nothing_CT\]"):
        client.split_points("dbo_nothing", NEVER, ALWAYS, 2)


# --- what the model says -------------------------------------------------------------------------


def by_name(name: str | None) -> tuple[bool, str]:
    """As a collation without case orders them, NULL first."""
    return name is not None, (name or "").lower()


def buckets(numbers: Sequence[int], width: int) -> list[tuple[int, int, Decimal]]:
    grouped: dict[int, list[int]] = {}
    for number in numbers:
        grouped.setdefault(number // width, []).append(number)
    return sorted((b, len(held), Decimal(sum(held))) for b, held in grouped.items())
