"""The workload's tables and their first rows, made by DuckDB out of a seed."""

from __future__ import annotations

from dataclasses import dataclass

DATABASE = "sales"

CUSTOMER = """CREATE TABLE dbo.customer (
    customer_id int NOT NULL CONSTRAINT pk_customer PRIMARY KEY,
    name nvarchar(40) NOT NULL,
    market_segment char(10) NOT NULL,
    nation nvarchar(20) NOT NULL,
    phone varchar(20) NULL,
    account_balance decimal(15, 2) NOT NULL,
    active bit NOT NULL,
    updated_at datetime2(7) NOT NULL)"""

ORDERS = """CREATE TABLE dbo.orders (
    order_id int NOT NULL CONSTRAINT pk_orders PRIMARY KEY,
    customer_id int NOT NULL,
    status char(1) NOT NULL,
    total_price decimal(15, 2) NOT NULL,
    order_date date NOT NULL,
    priority varchar(15) NOT NULL,
    clerk nvarchar(20) NOT NULL,
    comment nvarchar(64) NULL,
    created_at datetime2(7) NOT NULL,
    updated_at datetime2(3) NULL)"""

LINEITEM = """CREATE TABLE dbo.lineitem (
    order_id int NOT NULL,
    line_number int NOT NULL,
    part_id int NOT NULL,
    quantity decimal(15, 2) NOT NULL,
    extended_price decimal(15, 2) NOT NULL,
    discount decimal(5, 4) NOT NULL,
    return_flag char(1) NOT NULL,
    ship_date date NULL,
    ship_mode varchar(10) NOT NULL,
    comment nvarchar(44) NULL,
    CONSTRAINT pk_lineitem PRIMARY KEY (order_id, line_number))"""

CREATE = (CUSTOMER, ORDERS, LINEITEM)
TABLES = ("customer", "orders", "lineitem")

_TICKS_1992 = 628_297_344_000_000_000  # 1992-01-01
_DAY = 864_000_000_000


@dataclass(frozen=True, slots=True)
class Scale:
    """How many rows each table starts with; lineitem has 1 to 7 per order."""

    customers: int
    orders: int

    @classmethod
    def of(cls, factor: float) -> Scale:
        """A scale: 1.0 is 5,000 customers, 50,000 orders and about 200,000 line items."""
        return cls(max(1, round(5_000 * factor)), max(1, round(50_000 * factor)))


def _pick(seed: str, choices: tuple[str, ...]) -> str:
    """DuckDB text that picks one of the choices by a number's text."""
    items = ", ".join(f"'{choice}'" for choice in choices)
    return f"([{items}])[1 + CAST({seed} % {len(choices)} AS INTEGER)]"


def _noise(seed: int, key: str, salt: int) -> str:
    """DuckDB text of a number that looks random and depends on the seed and the key only."""
    return f"(hash({key} * 1000003 + {salt} * 7919 + {seed}) % 1000000007)"


def rows(table: str, scale: Scale, seed: int) -> str:
    """A DuckDB query of a table's first rows, in the order of its columns."""
    if table == "customer":
        return _customers(scale.customers, seed)
    if table == "orders":
        return _orders(scale, seed)
    return _line_items(scale.orders, seed)


def _customers(count: int, seed: int) -> str:
    k = "k"
    segments = ("AUTOMOBILE", "BUILDING  ", "FURNITURE ", "HOUSEHOLD ", "MACHINERY ")
    nations = ("DEUTSCHLAND", "FRANCE", "ÉIRE", "日本", "UNITED STATES", "BRASIL", "INDIA")
    phone = f"'+' || CAST({_noise(seed, k, 3)} AS VARCHAR)"
    return (
        f"SELECT CAST(k AS INTEGER), 'Customer#' || format('{{:09d}}', k), "
        f"{_pick(_noise(seed, k, 1), segments)}, {_pick(_noise(seed, k, 2), nations)}, "
        f"CASE WHEN {_noise(seed, k, 4)} % 10 = 0 THEN NULL ELSE {phone} END, "
        f"CAST(CAST({_noise(seed, k, 5)} % 1100000 AS BIGINT) - 100000 AS DECIMAL(18,0)) / 100, "
        f"{_noise(seed, k, 6)} % 8 <> 0, "
        f"{_TICKS_1992} + CAST({_noise(seed, k, 7)} AS BIGINT) * 2500001 "
        f"FROM range(1, {count + 1}) AS r(k)"
    )


def _orders(scale: Scale, seed: int) -> str:
    k = "k"
    day = f"CAST({_noise(seed, k, 11)} % 2400 AS INTEGER)"
    priorities = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
    words = ("carefully", "quickly", "schnell", "naïve", "final", "ironic", "blithely", "регулярно")
    comment = (
        f"{_pick(_noise(seed, k, 12), words)} || ' ' || {_pick(_noise(seed, k, 13), words)} || ' ' "
        f"|| CAST({_noise(seed, k, 14)} AS VARCHAR)"
    )
    return (
        f"SELECT CAST(k AS INTEGER), "
        f"CAST({_noise(seed, k, 15)} % {scale.customers} + 1 AS INTEGER), "
        f"{_pick(_noise(seed, k, 16), ('F', 'O', 'P'))}, "
        f"CAST(CAST({_noise(seed, k, 17)} % 50000000 AS BIGINT) + 10000 AS DECIMAL(18,0)) / 100, "
        f"DATE '1992-01-01' + {day}, {_pick(_noise(seed, k, 18), priorities)}, "
        f"'Clerk#' || format('{{:09d}}', CAST({_noise(seed, k, 19)} % 1000 AS INTEGER)), "
        f"CASE WHEN {_noise(seed, k, 20)} % 5 = 0 THEN NULL ELSE {comment} END, "
        f"{_TICKS_1992} + CAST({day} AS BIGINT) * {_DAY} "
        f"+ CAST({_noise(seed, k, 21)} AS BIGINT) * 863, "
        f"CASE WHEN {_noise(seed, k, 22)} % 3 = 0 THEN NULL ELSE {_TICKS_1992} + "
        f"(CAST({day} AS BIGINT) + 3) * {_DAY} + CAST({_noise(seed, k, 23)} % 86400000 AS BIGINT) "
        f"* 10000 END FROM range(1, {scale.orders + 1}) AS r(k)"
    )


def _line_items(orders: int, seed: int) -> str:
    k = "(k * 8 + l)"
    modes = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
    words = ("pending", "deposits", "über", "accounts", "requests", "foxes")
    return (
        "SELECT CAST(k AS INTEGER), CAST(l AS INTEGER), "
        f"CAST({_noise(seed, k, 31)} % 20000 + 1 AS INTEGER), "
        f"CAST({_noise(seed, k, 32)} % 50 + 1 AS DECIMAL(15,2)), "
        f"CAST(CAST({_noise(seed, k, 33)} % 10000000 AS BIGINT) + 100 AS DECIMAL(18,0)) / 100, "
        f"CAST(CAST({_noise(seed, k, 34)} % 1001 AS BIGINT) AS DECIMAL(18,0)) / 10000, "
        f"{_pick(_noise(seed, k, 35), ('A', 'N', 'R'))}, "
        f"CASE WHEN {_noise(seed, k, 36)} % 6 = 0 THEN NULL ELSE "
        f"DATE '1992-01-02' + CAST({_noise(seed, k, 37)} % 2500 AS INTEGER) END, "
        f"{_pick(_noise(seed, k, 38), modes)}, "
        f"CASE WHEN {_noise(seed, k, 39)} % 4 = 0 THEN NULL ELSE "
        f"{_pick(_noise(seed, k, 40), words)} || ' ' || CAST({_noise(seed, k, 41)} AS VARCHAR) END "
        f"FROM range(1, {orders + 1}) AS r(k), range(1, 8) AS n(l) "
        f"WHERE l <= 1 + {_noise(seed, 'k', 30)} % 7 ORDER BY k, l"
    )
