"""The product's statement families, each also rewritten: the same rows, whatever the text."""

from __future__ import annotations

import pytest

from cdc_assets_tests.sandbox.harness import Client, captured, max_lsn, recorded

pytestmark = pytest.mark.sqlserver

ZERO = "0x" + "0" * 20


@pytest.fixture
def orders(db: Client) -> Client:
    db.run(
        "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, "
        "at datetime2(7) NULL)",
        "EXEC sys.sp_cdc_enable_db",
    )
    captured(db, "orders")
    db.run(
        "INSERT INTO dbo.orders VALUES (1, N'a', '2026-11-30 10:00:00.1234567'), (2, N'b', NULL)",
        "UPDATE dbo.orders SET name = N'c' WHERE id = 2",
        "DELETE FROM dbo.orders WHERE id = 1",
    )
    recorded(db, 5, "dbo_orders")
    return db


def test_max_lsn_and_its_time(orders: Client) -> None:
    newest = max_lsn(orders)
    assert newest is not None
    found = orders.rows(
        "SELECT TOP (1) CONVERT(varchar(22), start_lsn, 1) AS lsn, CAST(tran_end_time AS "
        "datetime2(3)) AS commit_ts FROM cdc.lsn_time_mapping WHERE start_lsn <= "
        "CONVERT(binary(10), @P1, 1) ORDER BY start_lsn DESC",
        newest,
    )
    again = orders.rows(
        "select top 1 convert( varchar(22) , m.[start_lsn] , 1 ) x, cast(m.tran_end_time as "
        "datetime2(3)) from cdc.lsn_time_mapping as m where not (m.start_lsn > "
        "convert(binary(10),@p1,1)) order by 1 desc -- the same",
        newest,
    )
    assert found == again
    assert found[0][0] == newest
    assert found[0][1] == orders.value(
        "SELECT CAST(sys.fn_cdc_map_lsn_to_time(CONVERT(binary(10), @P1, 1)) AS datetime2(3))",
        newest,
    )


def test_counting_and_paging_the_mapping(orders: Client) -> None:
    assert (
        orders.rows("SELECT COUNT(*), MIN(start_lsn), MAX(start_lsn) FROM cdc.lsn_time_mapping")[0][
            0
        ]
        == 3
    )
    listed = [r[0] for r in orders.rows("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY 1")]
    page = "SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn OFFSET 1 ROWS FETCH NEXT "
    assert orders.rows(page + "1 ROWS ONLY") == [(listed[1],)]
    assert (
        orders.value(
            "SELECT CASE WHEN EXISTS (SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn > "
            "CONVERT(binary(10), @P1, 1)) THEN 1 ELSE 0 END",
            "0x" + listed[-1].hex(),
        )
        == 0
    )


def test_increment_and_decrement(orders: Client) -> None:
    assert orders.rows(
        "SELECT CONVERT(varchar(22), sys.fn_cdc_increment_lsn(CONVERT(binary(10), @P1, 1)), 1), "
        "CONVERT(varchar(22), sys.fn_cdc_decrement_lsn(CONVERT(binary(10), @P1, 1)), 1)",
        "0x0000002A0000008000FF",
    ) == [("0x0000002A000000800100", "0x0000002A0000008000FE")]


def test_mapping_times_to_lsns(orders: Client) -> None:
    newest = max_lsn(orders)
    ask = (
        "SELECT CONVERT(varchar(22), sys.fn_cdc_map_time_to_lsn('{}', "
        "(SELECT MAX(tran_end_time) FROM cdc.lsn_time_mapping)), 1)"
    )
    assert orders.value(ask.format("largest less than or equal")) == newest
    assert orders.value(ask.format("smallest greater than")) is None
    assert orders.error("SELECT sys.fn_cdc_map_time_to_lsn('nearest', GETDATE())").number == 313


def test_has_rows_of_a_hundred_instances_in_one_text(db: Client) -> None:
    db.run("EXEC sys.sp_cdc_enable_db")
    names = [f"t {i}" for i in range(100)]
    for name in names:
        db.run(f"CREATE TABLE dbo.[{name}] (k int NOT NULL PRIMARY KEY)")
        captured(db, name)
    db.run("INSERT INTO dbo.[t 7] VALUES (1)", "INSERT INTO dbo.[t 93] VALUES (1)")
    recorded(db, 1, "dbo_t 7")
    recorded(db, 1, "dbo_t 93")
    piece = (
        "SELECT @P{a} AS name, CASE WHEN EXISTS (SELECT 1 FROM cdc.[dbo_{t}_CT] WHERE "
        "[__$start_lsn] > CONVERT(binary(10), @P{b}, 1) AND [__$start_lsn] <= "
        "CONVERT(binary(10), @P{c}, 1)) THEN 1 ELSE 0 END AS has_rows"
    )
    text = " UNION ALL ".join(
        piece.format(a=3 * i + 1, b=3 * i + 2, c=3 * i + 3, t=name) for i, name in enumerate(names)
    )
    newest = max_lsn(db)
    values = [value for name in names for value in (name, ZERO, newest)]
    found = dict(db.rows(text, *values))
    assert [name for name, some in found.items() if some] == ["t 7", "t 93"]
    shorter = " union all ".join(
        f"select N'{name}', iif(exists (select * from cdc.[dbo_{name}_CT] q where "
        f"q.[__$start_lsn] between convert(binary(10),'{ZERO}',1) and "
        f"convert(binary(10),@P1,1)), 1, 0)"
        for name in names
    )
    assert dict(db.rows(shorter, newest)) == found


def test_help_lists_instances(orders: Client) -> None:
    columns, rows = orders.results("EXEC sys.sp_cdc_help_change_data_capture")[0]
    assert [c.name for c in columns] == [
        "source_schema",
        "source_table",
        "capture_instance",
        "object_id",
        "source_object_id",
        "start_lsn",
        "end_lsn",
        "supports_net_changes",
        "has_drop_pending",
        "role_name",
        "index_name",
        "filegroup_name",
        "create_date",
        "index_column_list",
        "captured_column_list",
    ]
    assert rows[0][:3] == ("dbo", "orders", "dbo_orders")
    assert rows[0][13:] == ("[id]", "[id], [name], [at]")
    assert (
        orders.rows("exec sp_cdc_help_change_data_capture N'dbo', @source_name = 'orders'") == rows
    )
    nothing = orders.error("EXEC sys.sp_cdc_help_change_data_capture 'dbo', 'nothing'")
    assert nothing.number == 22981
    assert orders.call("sys.sp_cdc_help_change_data_capture")[0][1] == rows


def test_help_into_a_table_variable(orders: Client) -> None:
    text = (
        "SET NOCOUNT ON; DECLARE @i TABLE (source_schema sysname NULL, source_table sysname NULL, "
        "capture_instance sysname NULL, object_id int NULL, source_object_id int NULL, start_lsn "
        "binary(10) NULL, end_lsn binary(10) NULL, supports_net_changes bit NULL, "
        "has_drop_pending bit NULL, role_name sysname NULL, index_name sysname NULL, "
        "filegroup_name sysname NULL, create_date datetime NULL, index_column_list nvarchar(max) "
        "NULL, captured_column_list nvarchar(max) NULL); INSERT INTO @i EXEC "
        "sys.sp_cdc_help_change_data_capture; SELECT capture_instance, CONVERT(varchar(22), "
        "start_lsn, 1) AS start_lsn, index_column_list FROM @i"
    )
    assert not any(orders.counts(text))
    first = orders.rows(text)
    assert first[0][0] == "dbo_orders"
    assert orders.rows(text) == first  # the variable ends with its batch


def test_captured_columns_and_history(orders: Client) -> None:
    found = orders.rows(
        "EXEC sys.sp_cdc_get_captured_columns @capture_instance = @P1", "dbo_orders"
    )
    assert [(r[3], r[5], r[6]) for r in found] == [
        ("id", 1, "int"),
        ("name", 2, "nvarchar"),
        ("at", 3, "datetime2"),
    ]
    orders.run("ALTER TABLE dbo.orders ADD extra varchar(5) NULL")
    history = orders.rows("EXEC sys.sp_cdc_get_ddl_history @capture_instance = @P1", "DBO_orders")
    assert [r[3:5] for r in history] == [
        (False, "ALTER TABLE dbo.orders ADD extra varchar(5) NULL")
    ]
    assert orders.error("EXEC sys.sp_cdc_get_captured_columns 'nothing'").number == 22981


def test_space_used(orders: Client) -> None:
    for text in ("EXEC sys.sp_spaceused N'[dbo].[orders]'", "sp_spaceused orders"):
        ((name, rows, reserved, *_),) = orders.rows(text)
        assert (name, rows.strip(), reserved[-2:]) == ("orders", "1", "KB")
    assert orders.error("EXEC sp_spaceused 'nothing'").number == 15009


def test_catalogue_views(orders: Client) -> None:
    number = orders.value("SELECT OBJECT_ID(N'[dbo].[orders]')")
    found = orders.rows(
        "SELECT c.name, c.column_id, c.collation_name, c.is_computed, c.is_nullable FROM "
        "sys.columns AS c WHERE c.object_id = CAST(@P1 AS int)",
        str(number),
    )
    assert found == [
        ("id", 1, None, False, False),
        ("name", 2, "SQL_Latin1_General_CP1_CI_AS", False, True),
        ("at", 3, None, False, True),
    ]
    again = orders.rows(
        "select s.name, c.name from sys.tables t join sys.schemas s on s.schema_id = t.schema_id "
        "inner join sys.columns c on t.object_id = c.object_id join sys.types y on y.user_type_id "
        "= c.user_type_id and y.name = N'datetime2' where t.name = 'ORDERS' and t.is_ms_shipped = 0"
    )
    assert again == [("dbo", "at")]
    assert orders.rows(
        "SELECT name, is_cdc_enabled, collation_name, snapshot_isolation_state FROM sys.databases "
        "WHERE name = DB_NAME()"
    ) == [(orders.database, True, "SQL_Latin1_General_CP1_CI_AS", 0)]


def test_session_facts(orders: Client) -> None:
    ((database, login, version, process, product),) = orders.rows(
        "SELECT DB_NAME(), SUSER_SNAME(), @@VERSION, @@SPID, "
        "CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128))"
    )
    assert (database, login, product[:5]) == (orders.database, "sa", "16.0.")
    assert version.startswith("Microsoft SQL Server 2022")
    assert process > 50
    assert orders.value("SELECT HAS_PERMS_BY_NAME('dbo.orders', 'OBJECT', 'SELECT')") == 1


CHANGES = (
    "SELECT CONVERT(varchar(22), ct.[__$start_lsn], 1) AS [_start_lsn], CONVERT(varchar(22), "
    "ct.[__$seqval], 1) AS [_seqval], ct.[__$operation], ct.[__$command_id], CAST(m.tran_end_time "
    "AS datetime2(3)), ct.[id], ct.[name], CAST(ct.[at] AS datetime2(6)) FROM cdc.[dbo_orders_CT] "
    "AS ct INNER JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = ct.[__$start_lsn] WHERE "
    "ct.[__$start_lsn] >= CONVERT(binary(10), @P1, 1) AND ct.[__$start_lsn] <= "
    "CONVERT(binary(10), @P2, 1) ORDER BY ct.[__$start_lsn], ct.[__$command_id], ct.[__$seqval], "
    "ct.[__$operation]"
)
REWRITTEN = (
    "select convert(varchar(22), c.[__$start_lsn], 1), convert(varchar(22), c.[__$seqval], 1), "
    "c.__$operation, c.__$command_id, cast(t.tran_end_time as datetime2(3)), c.id, c.name, "
    "cast(c.at as datetime2(6)) from cdc.lsn_time_mapping t, cdc.dbo_orders_CT c where "
    "t.start_lsn = c.__$start_lsn and c.__$start_lsn between convert(binary(10), @P1, 1) and "
    "convert(binary(10), @P2, 1) order by 1, 4, 2, 3"
)


def test_change_read(orders: Client) -> None:
    newest = max_lsn(orders)
    found = orders.rows(CHANGES, ZERO, newest)
    assert [(r[2], r[3], r[5], r[6]) for r in found] == [
        (2, 1, 1, "a"),
        (2, 1, 2, "b"),
        (3, 1, 2, "b"),
        (4, 1, 2, "c"),
        (1, 1, 1, "a"),
    ]
    assert found[0][7] == 639_316_296_001_234_570  # 10:00:00.123457, the 100 ns rounded
    assert [r[0] for r in found] == sorted(r[0] for r in found)
    assert orders.rows(REWRITTEN, ZERO, newest) == found
    last = [r for r in found if r[0] == newest]
    assert orders.rows(CHANGES, newest, newest) == last
    assert orders.types(CHANGES, newest, newest) == [
        "varchar(22)",
        "varchar(22)",
        "int",
        "int",
        "datetime2(3)",
        "int",
        "nvarchar(20)",
        "datetime2(6)",
    ]


def test_splitting_into_tiles(orders: Client) -> None:
    text = (
        "SELECT t.tile, COUNT_BIG(*) AS n, CONVERT(varchar(22), MAX(t.lsn), 1) AS last FROM ("
        "SELECT [__$start_lsn] AS lsn, NTILE(2) OVER (ORDER BY [__$start_lsn]) AS tile FROM "
        "cdc.[dbo_orders_CT] WHERE [__$start_lsn] > CONVERT(binary(10), @P1, 1)) AS t GROUP BY "
        "t.tile ORDER BY t.tile"
    )
    found = orders.rows(text, ZERO)
    assert [r[:2] for r in found] == [(1, 3), (2, 2)]
    assert found[-1][2] == max_lsn(orders)
    again = orders.rows(
        "WITH tiled AS (SELECT ntile(2) over (order by x.__$start_lsn) g, x.__$start_lsn l from "
        "cdc.dbo_orders_CT x) select g, count_big(l), convert(varchar(22), max(l), 1) from tiled "
        "group by g order by g"
    )
    assert again == found


def test_snapshot_reads(db: Client) -> None:
    db.run("CREATE TABLE t (k int NULL, b varchar(5), c datetime2(7))")
    db.run("INSERT t VALUES (1, 'a', NULL), (5, 'b', NULL), (9, 'c', NULL), (NULL, 'd', NULL)")
    piece = (
        "SELECT [k], [b], CAST([c] AS datetime2(6)) AS [c] FROM [dbo].[t] WHERE [k] >= "
        "CAST(@P1 AS int) AND [k] < CAST(@P2 AS int)"
    )
    assert db.rows(piece, "1", "9") == [(1, "a", None), (5, "b", None)]
    assert db.rows(piece + " OR [k] IS NULL", "5", "6") == [(5, "b", None), (None, "d", None)]
    assert db.rows("SELECT MIN(k), MAX(k), COUNT_BIG(*), COUNT(k) FROM t") == [(1, 9, 4, 3)]
    assert db.rows("SELECT TOP (2) k FROM t ORDER BY k") == [(None,), (1,)]
    assert db.rows("SELECT TOP (2) k FROM t ORDER BY k DESC") == [(9,), (5,)]
    pieces = " UNION ALL ".join(
        f"SELECT {i} AS n, MAX(q.k) FROM (SELECT TOP (2) k FROM t WHERE k > {i} ORDER BY k) AS q"
        for i in (0, 4)
    )
    assert db.rows(f"{pieces} ORDER BY n DESC") == [(4, 9), (0, 5)]


@pytest.mark.sandbox
def test_the_clock(db: Client) -> None:
    db.run("EXEC sandbox.set_clock @zone = N'W. Europe Standard Time'")
    ((utc, offset, minutes, zone, local),) = db.rows(
        "SELECT CONVERT(varchar(33), SYSUTCDATETIME(), 126), SYSDATETIMEOFFSET(), "
        "DATEPART(tzoffset, SYSDATETIMEOFFSET()), CURRENT_TIMEZONE_ID(), SYSDATETIME()"
    )
    assert len(utc) == len("2026-11-30T10:00:00.1234567")
    assert zone == "W. Europe Standard Time"
    assert minutes in (60, 120)
    assert offset["offset_minutes"] == minutes
    assert local - offset["ticks"] == minutes * 600_000_000
    assert db.error("EXEC sandbox.set_clock @zone = 'Nowhere'").number == 9820


def test_what_drivers_send_at_connect(db: Client) -> None:
    db.run(
        "SET NOCOUNT ON",
        "set quoted_identifier on",
        "SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL ON",
        "SET TEXTSIZE 2147483647; SET DATEFIRST 7; SET DATEFORMAT mdy; SET LANGUAGE us_english",
        "SET IMPLICIT_TRANSACTIONS OFF SET CURSOR_CLOSE_ON_COMMIT OFF",
        "SET NO_BROWSETABLE ON",
    )
    assert db.value("SELECT @@LOCK_TIMEOUT") == 5000
    assert db.value("SELECT 1") == 1
    assert db.call("sp_datatype_info_100", data_type="-9")[0][1][0][0] == "nvarchar"
    assert db.error("SET NOSUCH ON").number == 195


@pytest.mark.sandbox
def test_an_order_of_days_it_does_not_know(db: Client) -> None:
    assert db.error("SET DATEFORMAT dmy").number == 40515
