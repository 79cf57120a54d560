"""One poll of a database, whatever the number of tables: a few statements in a fixed order.

max_lsn first, then whether each table has rows up to it, then the watermarks and identities. A
purged range reads as empty, so the loss test needs the watermark as it is *after* that look.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from cdc_assets.errors import CdcError, PermissionMissingError, SourceBusyError, SourceQueryError
from cdc_assets.ingest.clock import read_clock
from cdc_assets.lsn import Lsn
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.polls import CaptureInstance, Poll
from cdc_assets.sqlserver import queries
from cdc_assets.sqlserver.catalog import capture_instances
from cdc_assets.sqlserver.connection import Connection


def poll_database(
    connection: Connection,
    instances: Mapping[str, CaptureInstance],
    positions: Mapping[str, Lsn],
    zone: str | None = None,
    observed: Collection[Lsn] = (),
) -> Poll:
    """Look at a database once.

    `positions` are by capture instance; an instance without one is not asked for rows.
    `instances` are those listed before, so that nothing unlisted is named. `zone` is the
    settings' name of the server's time zone. `observed` are positions that an earlier poll gave:
    the log must still know them.
    """
    started = time.monotonic()
    newest = read_max_lsn(connection)
    rtt_ms = (time.monotonic() - started) * 1000
    first = min(positions.values(), default=newest) or Lsn.of_int(0)
    clock, end = read_clock(connection, zone, first, newest)
    monotonic_seconds = time.monotonic()
    errors: dict[str, CdcError] = {}
    has_rows = {} if newest is None else _has_rows(connection, positions, newest, errors)
    watermarks = _watermarks(connection, instances)
    return Poll(
        clock=clock,
        max=end if end is None or newest is None else Offset(newest, end.commit_ts),
        instances=capture_instances(connection),
        has_rows=has_rows,
        watermarks=watermarks,
        rtt_ms=rtt_ms,
        errors=errors,
        unmapped=_unmapped(connection, observed),
        monotonic_seconds=monotonic_seconds,
    )


def read_max_lsn(connection: Connection) -> Lsn | None:
    """The newest LSN that capture has processed; None where it never ran."""
    return Lsn.parse_optional(connection.rows(queries.MAX_LSN)[0]["max_lsn"])


def _has_rows(
    connection: Connection,
    positions: Mapping[str, Lsn],
    newest: Lsn,
    errors: dict[str, CdcError],
) -> dict[str, bool]:
    """Whether each instance has rows above its position, in one statement for all of them.

    One that may not be read would fail it for all: then each is asked alone, and `errors` says
    what the server refused.
    """
    behind = [(name, lsn) for name, lsn in positions.items() if lsn < newest]
    found = dict.fromkeys(positions, False)
    for some in queries.per_statement(behind):
        try:
            found.update(_ask_for_rows(connection, some, newest))
        except (PermissionMissingError, SourceQueryError, SourceBusyError):
            for one in some:
                try:
                    found.update(_ask_for_rows(connection, [one], newest))
                except (PermissionMissingError, SourceQueryError) as error:
                    # Not asked is not quiet.
                    found.pop(one[0], None)
                    errors[one[0]] = error
                except SourceBusyError:
                    # Its own work asks again, with waits that keep no other table.
                    found.pop(one[0], None)
    return found


def _ask_for_rows(
    connection: Connection, some: Sequence[tuple[str, Lsn]], newest: Lsn
) -> dict[str, bool]:
    text = queries.has_changes([name for name, _ in some])
    parameters = [str(bound) for _, lsn in some for bound in (lsn, newest)]
    return {some[row["place"]][0]: True for row in connection.rows(text, parameters)}


def _unmapped(connection: Connection, observed: Collection[Lsn]) -> frozenset[Lsn]:
    """The LSNs that the log lacks, where it holds an older one: else cleanup has passed them."""
    found = set()
    for some in queries.per_statement(sorted(observed)):
        parameters = [str(lsn) for lsn in some for _ in range(3)]
        for row in connection.rows(queries.are_mapped(len(some)), parameters):
            if row["has_older"] and not row["is_mapped"]:
                found.add(Lsn.parse(row["lsn"]))
    return frozenset(found)


def _watermarks(connection: Connection, instances: Iterable[str]) -> dict[str, Lsn | None]:
    found: dict[str, Lsn | None] = {}
    for some in queries.per_statement(sorted(instances)):
        rows = connection.rows(queries.watermarks(len(some)), some)
        found.update({row["instance"]: Lsn.parse_optional(row["min_lsn"]) for row in rows})
    return found
