"""What one table is called in each place: paths, transaction ids, control rows, pools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from cdc_assets.lsn import Lsn

ZONE_PATTERN = r"^[A-Za-z0-9 .+()_-]{1,128}$"
"""What Windows may call a time zone: `sys.time_zone_info` has nothing else."""


NAME_LENGTH_MAX = 128
"""SQL Server's limit for an identifier, in UTF-16 code units."""


class Command(StrEnum):
    """What an error may tell a person to run for one table."""

    SYNC = "sync"
    RESNAPSHOT = "snapshot"
    BACKFILL = "backfill"
    SEED = "seed"
    RESET = "reset"


def folded(name: str) -> str:
    """A name as it compares to others: letter by letter, as Java (and so Spark) ignores case."""
    return "".join(_folded(letter) for letter in name)


def _folded(letter: str) -> str:
    upper = letter.upper() if len(letter.upper()) == 1 else letter
    return upper.lower() if len(upper.lower()) == 1 else upper


def kind_of(uri: str) -> str:
    """What a table is by its place: bronze, silver, history, facts, control, plans, or none."""
    found = re.search(r"/(?:(bronze|silver|history)/[^/]+|_cdc/(facts|control|plans))/?$", uri)
    return (found.group(1) or found.group(2)) if found else ""


@dataclass(frozen=True, slots=True)
class DatabaseName:
    """A database of `tables.yaml` and its lake; every path below comes from here."""

    key: str
    lake: str

    @property
    def root(self) -> str:
        """The database's folder in the lake."""
        return f"{self.lake.rstrip('/')}/{self.key}"

    @property
    def facts_uri(self) -> str:
        """The facts table."""
        return f"{self.root}/_cdc/facts"

    @property
    def control_uri(self) -> str:
        """The control table."""
        return f"{self.root}/_cdc/control"

    @property
    def plans_uri(self) -> str:
        """The plans table."""
        return f"{self.root}/_cdc/plans"

    def table(self, key: str) -> TableName:
        """The names of one of its tables."""
        return TableName(self, key)

    def pool(self, work: str) -> str:
        """The Dagster pool that bounds one kind of work on this database."""
        return f"{self.key}_{work}"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its key in `tables.yaml`: asset, path, facts target and control row alike."""

    database: DatabaseName
    key: str

    @property
    def bronze(self) -> str:
        """Its bronze table in the facts (`target`)."""
        return f"bronze/{self.key}"

    @property
    def bronze_row(self) -> str:
        """Its bronze table in control; the same, but for tables that a caller names."""
        return self.bronze

    @property
    def silver(self) -> str:
        """Its silver table in control (`table_name`)."""
        return f"silver/{self.key}"

    @property
    def history(self) -> str:
        """Its history table in control (`table_name`)."""
        return f"history/{self.key}"

    @property
    def bronze_uri(self) -> str:
        """Where its bronze table is."""
        return f"{self.database.root}/{self.bronze}"

    @property
    def silver_uri(self) -> str:
        """Where its silver table is."""
        return f"{self.database.root}/{self.silver}"

    @property
    def history_uri(self) -> str:
        """Where its history table is."""
        return f"{self.database.root}/{self.history}"

    @property
    def changes_app(self) -> str:
        """Transaction id of every change commit in bronze; its version is the batch id."""
        return f"{self.key}#changes"

    @property
    def facts_app(self) -> str:
        """Transaction id of the facts of its change commits; the same versions."""
        return f"{self.key}#facts"

    @property
    def open_app(self) -> str:
        """Transaction id of its `snapshot_open` events; two opens collide."""
        return f"{self.key}#open"

    @property
    def apply_app(self) -> str:
        """Transaction id of silver's MERGEs."""
        return f"{self.key}#apply"

    @property
    def history_app(self) -> str:
        """Transaction id of history's MERGEs."""
        return f"{self.key}#history"

    @property
    def reset_app(self) -> str:
        """Transaction id of its `reset` events."""
        return f"{self.key}#reset"

    def instance_app(self, change_object_id: int) -> str:
        """Transaction id of what is told of a capture instance: 0 seen, 1 switched to."""
        return f"{self.key}#instance.{change_object_id}"

    def lost_app(self, first: Lsn, last: Lsn) -> str:
        """Transaction id of the event of a loss."""
        return f"{self.key}#lost.{first}.{last}"

    @property
    def renamed_app(self) -> str:
        """Transaction id of what is told of the source table's new names; one version for each."""
        return f"{self.key}#renamed"

    @property
    def acknowledged_app(self) -> str:
        """Transaction id of a person's word that a gap is known; one version for each."""
        return f"{self.key}#acknowledged"

    def snapshot_app(self, snapshot: Lsn) -> str:
        """Transaction id of a snapshot's rows in bronze."""
        return f"{self.key}#snap.{snapshot}"

    def extent_app(self, snapshot: Lsn) -> str:
        """Transaction id of what is recorded of the key when a chunked snapshot is opened."""
        return f"{self.key}#extent.{snapshot}"

    def plan_app(self, snapshot: Lsn) -> str:
        """Transaction id of a chunked snapshot's plan, and of the event that tells of it."""
        return f"{self.key}#plan.{snapshot}"

    def bound_app(self, snapshot: Lsn) -> str:
        """Transaction id of the bound that closes a chunked snapshot's last chunk."""
        return f"{self.key}#bound.{snapshot}"

    def wave_app(self, snapshot: Lsn) -> str:
        """Transaction id of the facts of a chunked snapshot's waves; their numbers, from 0."""
        return f"{self.key}#wave.{snapshot}"

    def done_app(self, snapshot: Lsn) -> str:
        """Transaction id of a snapshot's completion event."""
        return f"{self.key}#done.{snapshot}"

    @property
    def delta_uris(self) -> tuple[str, ...]:
        """Where the Delta tables are that hold its rows."""
        return self.bronze_uri, self.silver_uri

    def command(self, command: Command) -> str:
        """How a person runs it for this table."""
        return f"cdc-assets {command} {self.database.key} {self.key}"

    def __str__(self) -> str:
        return f"{self.database.key}.{self.key}"
