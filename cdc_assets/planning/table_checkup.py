"""What `cdc-assets doctor` makes of one table: its grants, columns, key, and how safe it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cdc_assets.errors import CdcError
from cdc_assets.lsn import Lsn
from cdc_assets.planning.checkup import Finding, Level, failed
from cdc_assets.planning.columns import find_name, listed
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.waves import low_headroom
from cdc_assets.settings.model import DatabaseSettings

LARGE_TYPES = ("text", "ntext", "image", "xml")
OLD_TYPES = ("text", "ntext", "image")
"""Of which change data capture leaves out what was there before."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A captured column: its name and base type; `is_max` where its values have no length."""

    name: str
    type: str
    is_known: bool
    is_max: bool
    is_computed: bool


@dataclass(frozen=True, slots=True)
class TableRead:
    """What was read of one table; `error` is why it was no more than that.

    `low` is where its changes begin now, with that commit's time, `created` when its instance was
    (both in UTC), and `position` how far it was read. `partitions` is None where nobody may see
    them.
    """

    key: str
    instances: tuple[str, ...] = ()
    columns: tuple[SourceColumn, ...] = ()
    index_columns: tuple[str, ...] = ()
    has_command_id: bool = True
    low: Lsn | None = None
    low_ts: datetime | None = None
    created: datetime | None = None
    position: Offset | None = None
    newest: Lsn | None = None
    partitions: int | None = None
    error: CdcError | None = None


def judge_table(
    database: str, read: TableRead, settings: DatabaseSettings, largest_value_bytes: int | None
) -> list[Finding]:
    """All that is to be said of one table."""
    about = f"{database}.{read.key}"
    standing = _standing(about, read.key, settings)
    if read.error is not None:
        return [*standing, failed("table", about, read.error)]
    found = [
        *standing,
        Finding("table", about, Level.OK, f"{listed(read.instances)}, and both grants"),
        *_columns(about, read, settings, largest_value_bytes),
        *_key(about, read, settings),
        _position(about, read, settings),
    ]
    if not read.has_command_id and settings.include_command_id_of(read.key):
        found.append(
            Finding(
                "columns",
                about,
                Level.FAIL,
                "its change table has no column __$command_id",
                "Set `include_command_id: false`, or update the server.",
            )
        )
    if (read.partitions or 0) > 1:
        found.append(
            Finding(
                "partitions",
                about,
                Level.WARN,
                f"it has {read.partitions} partitions: change data capture does not see a SWITCH,"
                " nor TRUNCATE WITH (PARTITIONS)",
                f"After one: cdc-assets snapshot {database} {read.key}",
            )
        )
    return found


def _standing(about: str, table: str, settings: DatabaseSettings) -> list[Finding]:
    if not settings.is_paused(table):
        return []
    text = "it stands still: `paused: true` in tables.yaml; its changes wait at the source"
    step = "Take that out before cleanup has come to what was read; else it has to be read anew."
    return [Finding("paused", about, Level.WARN, text, step)]


def _columns(
    about: str, read: TableRead, settings: DatabaseSettings, largest: int | None
) -> list[Finding]:
    """Types without a counterpart, and the holes that capture itself has."""
    wanted = settings.tables[read.key].columns
    loaded = [c for c in read.columns if wanted is None or find_name(c.name, wanted) is not None]
    found = []
    if unknown := [f"{c.name} ({c.type})" for c in loaded if not c.is_known]:
        text = f"types without an exact counterpart: {listed(unknown)} [unsupported_column]"
        step = "Leave them out: list the other columns under `columns`."
        found.append(Finding("columns", about, Level.FAIL, text, step))
    if computed := [c.name for c in loaded if c.is_computed]:
        text = f"computed, so captured as NULL and left out: {listed(computed)}"
        found.append(Finding("columns", about, Level.WARN, text, "Compute them from the others."))
    if old := [c.name for c in loaded if c.type in OLD_TYPES]:
        text = f"captured as NULL in deletes and in rows before an update: {listed(old)}"
        step = "Silver is right all the same; alter them to (max) types where bronze has to be."
        found.append(Finding("columns", about, Level.WARN, text, step))
    if large := [c.name for c in loaded if c.is_max or c.type in LARGE_TYPES]:
        found += _largest(about, large, largest)
    return found


def _largest(about: str, names: Sequence[str], largest: int | None) -> list[Finding]:
    """`max text repl size`: a larger value makes the source's own write fail."""
    if largest is None:
        text = "the server does not show this login how large captured values may be"
        return [Finding("large values", about, Level.HIDDEN, text)]
    if largest < 0:
        return []
    return [
        Finding(
            "large values",
            about,
            Level.WARN,
            f"the source's own writes fail where a value of {listed(names)} has more than"
            f" {largest:,} bytes",
            "EXEC sp_configure 'max text repl size', -1; RECONFIGURE",
        )
    ]


def _key(about: str, read: TableRead, settings: DatabaseSettings) -> list[Finding]:
    if settings.tables[read.key].keys is not None:
        return []
    if not read.index_columns:
        text = "it is captured without a unique index, so silver has no key [silver_key]"
        step = "Set `keys` to the columns of a unique index."
        return [Finding("key", about, Level.FAIL, text, step)]
    computed = [c.name for c in read.columns if c.is_computed and c.name in read.index_columns]
    if computed:
        text = f"key column {computed[0]} is computed, and captured as NULL"
        step = "Set `keys` to stored columns that no two rows share."
        return [Finding("key", about, Level.FAIL, text, step)]
    return [Finding("key", about, Level.OK, listed(read.index_columns))]


def _position(about: str, read: TableRead, settings: DatabaseSettings) -> Finding:
    """Whether what is to be read next is still there, and for how long."""
    position, name = read.position, "retention"
    if position is None:
        return Finding(name, about, Level.OK, "nothing is loaded yet")
    if read.newest is not None and position.lsn > read.newest:
        return Finding(
            name,
            about,
            Level.FAIL,
            f"it was read up to {position.lsn}, and the server is at {read.newest}: it was"
            " restored, or is a copy [history_changed]",
            "Wait where it catches up; after a restore: cdc-assets reset"
            f" {about.replace('.', ' ')}",
        )
    if read.low is not None and position.lsn.next() < read.low:
        return Finding(
            name,
            about,
            Level.FAIL,
            f"cleanup has removed changes after {position.commit_ts} UTC that were not read"
            " [data_loss]",
            "`on_data_loss` says what the next sync does; or: cdc-assets snapshot"
            f" {about.replace('.', ' ')}",
        )
    text = f"read up to {position.commit_ts} UTC"
    if read.low_ts is None or read.created is None:
        return Finding(name, about, Level.OK, text)
    least = settings.min_headroom_hours_of(read.key)
    low = low_headroom(position.commit_ts, read.low_ts, read.created, least)
    if low is None:
        return Finding(name, about, Level.OK, text)
    return Finding(
        name,
        about,
        Level.WARN,
        f"{text}, {low:,.1f} h before cleanup takes what comes next",
        "Sync more often, or keep changes longer: EXEC sys.sp_cdc_change_job @job_type ="
        " N'cleanup', @retention = 10080 (minutes).",
    )
