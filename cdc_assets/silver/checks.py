"""What keeps a call from being right, looked for before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdc_assets.contract import Event, SnapshotMode
from cdc_assets.engines.arrow.cutting import commit_ranges
from cdc_assets.errors import CaptureInstanceUnknownError, SettingsError, SilverKeyError
from cdc_assets.lake.bronze import (
    Select,
    first_row,
    has_chunk_rows,
    instances_of_rows,
)
from cdc_assets.lake.features import beyond_reading, unreadable
from cdc_assets.lake.tables import columns_of, query
from cdc_assets.names import Command, folded
from cdc_assets.planning.applying import ApplyWork
from cdc_assets.planning.bounds import Times
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.planning.instances import instance_names
from cdc_assets.planning.merging import passed_on_keys, work_rows
from cdc_assets.silver.keys import differ, wanted_keys
from cdc_assets.silver.reading import Read


def check_chunks(read: Read, *, by_engine: bool = False) -> None:
    """Raise `SettingsError` for rows of a chunked snapshot that no facts tell of.

    The facts alone say which of its waves count, and when it is complete. `by_engine` is for a
    bronze that Spark alone can read, where there is work to do: else nothing starts it.
    """
    if read.snapshots.has_chunked or bool(unreadable(read.bronze)) is not by_engine:
        return
    above = read.position.snapshot or read.position.opened
    may_hold = read.files.may_hold_snapshot_rows(above)
    if not (may_hold and has_chunk_rows(selecting(read), above)):
        return
    table = read.table
    if not table.has_facts:
        raise SettingsError(
            "bronze has rows of a chunked snapshot, and no facts are given, which say what of it"
            " counts; nothing was applied",
            where=str(table.name),
            hint="Pass facts_table.",
        )
    chunked = sorted(
        {
            row.target or ""
            for row in table.lake.facts.events()
            if row.event == Event.SNAPSHOT_OPEN and row.payload.get("mode") == SnapshotMode.CHUNKED
        }
    )
    there = f"They know those of: {listed(chunked)}." if chunked else "They know none."
    raise SettingsError(
        f"bronze has rows of a chunked snapshot, and the facts know none of {table.name.bronze};"
        " nothing was applied",
        where=str(table.name),
        hint=f"Are they this table's, and is it called so there? {there}",
    )


def check_instances(read: Read, work: ApplyWork) -> None:
    """Raise `CaptureInstanceUnknownError` for a row of another source table.

    Bronze holds one: its instances are the first and those that the facts say were seen of it. The
    facts were read before bronze, so they are read once more before a row is called strange.
    """
    table = read.table
    if work.is_empty or table.instance is None:
        return
    known = [table.instance, *read.instances]
    of_files = read.files.instances_from(work.since)
    if of_files is not None and not _strange(of_files, known):
        return
    found = instances_of_rows(selecting(read), work_rows(work))
    if not (strange := _strange(found, known)):
        return
    if table.has_facts:
        again = instance_names(table.lake.facts.events())[table.name.bronze]
        strange = _strange(strange, again)
    if strange:
        raise CaptureInstanceUnknownError(
            f"bronze has rows of the capture instance {min(strange)}, which is not known to be its"
            " table's; nothing was applied",
            where=str(table.name),
            hint=f"A bronze table holds one source table. Known are: {listed(sorted(set(known)))}.",
        )


def check_order(read: Read, work: ApplyWork, keys: tuple[str, ...]) -> None:
    """Raise `SilverKeyError` for a commit in which a key's 4 comes before its 3, of another row.

    That may be wherever the key is not the capture instance's own: a swap in one statement is
    recorded so. Then no image of the order that silver goes by is the right one. More rows than
    may be ranked at once are looked at commit range by commit range.
    """
    own = wanted_keys((), work.position, read.snapshots)
    is_own = not differ(keys, own) and not read.table.keys_unchecked
    if work.is_empty or is_own:
        return
    names = {column.name for column in read.captured}
    known = [find_name(key, names) for key in own]
    identity = () if None in known else tuple(name for name in known if name is not None)
    columns = columns_of(read.bronze)
    texts = (passed_on_keys(keys, rows, identity, columns) for rows in _parts(read, work))
    found = next(filter(None, (first_row(selecting(read), text) for text in texts)), None)
    if found is not None:
        raise SilverKeyError(
            f"in the commit {found['_start_lsn']} a row gets a key before"
            f" {'another' if identity else 'a'} row leaves it, and the order of the changes does"
            " not say who has it; nothing was applied",
            where=str(read.table.name),
            hint="Its `keys` are not those of the capture instance's index. Name these, or take a"
            f" snapshot: {read.table.name.command(Command.RESNAPSHOT)}.",
        )


def _parts(read: Read, work: ApplyWork) -> Iterator[str]:
    """The rows of a call in parts that memory holds, no commit in two of them.

    Spark, where it looks at them, needs no parts.
    """
    rows, rows_max = work_rows(work), read.table.rank_rows_max
    if beyond_reading(read.bronze) or read.files.rows_above(work.since) <= rows_max:
        yield rows
        return
    for commits in commit_ranges(read.bronze, rows, rows_max):
        yield f"({rows}) AND {commits.holds(Times.DATAFUSION)}"


def selecting(read: Read) -> Select:
    """Who looks at bronze's rows: delta-rs, and where it cannot read them the engine that can."""
    beyond, table, bronze = beyond_reading(read.bronze), read.table, read.bronze
    if not beyond:
        return lambda sql: query(sql, bronze=bronze).to_pylist()
    engine = table.engine(table.choose(beyond, None))
    return lambda sql: engine.select(table.name.bronze_uri, bronze.version(), sql)


def _strange(found: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """Those that are not known, in any case: SQL Server finds them so."""
    names = {folded(name) for name in known}
    return frozenset(name for name in found if folded(name) not in names)
