"""The ranges a whole snapshot is read in: several connections, every row exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets.planning.keysets import Key, range_sizes, ranges_between
from cdc_assets.planning.polls import CaptureInstance
from cdc_assets.planning.ranges import integer_ranges
from cdc_assets.planning.sizing import TableSize
from cdc_assets.sqlserver import keys as keysets
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import Captured
from cdc_assets.sqlserver.connection import Connection
from cdc_assets.sqlserver.keys import KeyColumn, bound_text, key_column

Query = tuple[str, tuple[str, ...]]
"""A text and its parameters."""


def table_rows(connection: Connection, instance: CaptureInstance) -> int:
    """How many rows the source table has, by the server's metadata: near enough to plan with."""
    return table_size(connection, instance).rows


def table_size(connection: Connection, instance: CaptureInstance) -> TableSize:
    """How many rows and bytes the source table has, by the server's metadata."""
    name = queries.source_table(instance.schema, instance.table)
    found = connection.rows(queries.SPACE_USED, [name])[0]
    return TableSize(int(found["rows"]), int(found["data"].split()[0]) * 1024)


def snapshot_ranges(
    connection: Connection,
    instance: CaptureInstance,
    columns: Captured,
    count: int,
) -> tuple[Query, ...]:
    """At most `count` queries that together read the table (seed 0016).

    One integer key: uniform ranges over its MIN..MAX, two seeks. Any other key: bounds found by
    keyset seeks. A key that is not all captured and selected, or cannot be cut exactly: one query.
    """
    table = (instance.schema, instance.table)
    names = columns.selected
    whole = ((queries.read_table(*table, names), ()),)
    keys = key_columns(columns, instance.index_columns)
    if count <= 1 or not keys:
        return whole
    if is_integer(keys):
        (key,) = keys
        extent = connection.rows(queries.key_extent(*table, key.name))[0]
        return tuple(
            integer_range(table, names, key, bounds)
            for bounds in integer_ranges(extent["low"], extent["high"], count)
        )
    bounds = _bounds(connection, instance, keys, count)
    ranges = tuple(
        keysets.read_range(table, names, keys, low, high) for low, high in ranges_between(bounds)
    )
    # A key of dozens of columns has pieces of dozens of terms: the server would refuse them.
    fits = all(len(values) <= queries.PARAMETERS_MAX for _, values in ranges)
    return ranges if fits else whole


def key_columns(columns: Captured, names: Sequence[str]) -> tuple[KeyColumn, ...]:
    """How ranges are cut on a key; nothing where one of its columns is not loaded, or cannot be."""
    types = {c.source_name: c.type for c in columns.columns if c.name in columns.names}
    if not set(names) <= set(types):
        return ()
    last = len(names) - 1
    found = [
        key_column(name, types[name], is_last=place == last) for place, name in enumerate(names)
    ]
    keys = tuple(key for key in found if key is not None)
    return keys if len(keys) == len(found) else ()


def is_integer(keys: Sequence[KeyColumn]) -> bool:
    """Whether a key is one integer column."""
    return len(keys) == 1 and keys[0].declared in keysets.INTEGERS


def bound_of(row: Mapping[str, object]) -> Key:
    """A row of a key's columns, in their order, as a bound."""
    return tuple(bound_text(value) for value in row.values())


def integer_range(
    table: tuple[str, str],
    names: queries.Names,
    key: KeyColumn,
    bounds: tuple[int | str | None, int | str | None],
) -> Query:
    """The rows whose integer key is in [from, to); None is an open end."""
    low, high = bounds
    condition = queries.integer_range(key.name, key.declared, first=low is None, last=high is None)
    text = queries.read_table(*table, names, condition)
    return text, tuple(str(bound) for bound in bounds if bound is not None)


def _bounds(
    connection: Connection, instance: CaptureInstance, keys: Sequence[KeyColumn], count: int
) -> list[Key]:
    """The first key of each range but the first; fewer where the count of rows was too high.

    A count too low leaves the rest to the last range: every row is read once either way.
    """
    table = (instance.schema, instance.table)
    found: list[Key] = []
    for rows in range_sizes(table_rows(connection, instance), count)[:-1]:
        lower = found[-1] if found else None
        row = connection.rows(*keysets.next_bound(table, keys, lower, rows))
        if not row:
            break
        bound = bound_of(row[0])
        # Equal to the one before it cuts nothing: a unique index may leave rows out by a filter.
        if bound != lower:
            found.append(bound)
    return found
