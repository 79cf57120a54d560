"""Silvers that were made otherwise than the settings want them now: found by a look at their logs.

Only an edit of `tables.yaml` makes such a one without any change or snapshot to apply, so nobody
looks until the settings are others than those under which all were found right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_assets.engines.database import Database
from cdc_assets.errors import CdcError
from cdc_assets.planning.applying import Position
from cdc_assets.planning.pending import Due, Pending
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.snapshots import snapshots_by_target
from cdc_assets.settings import DatabaseSettings
from cdc_assets.silver.places import table_of
from cdc_assets.silver.reading import look

LOOKS_PER_TICK_MAX = 20
"""Silvers whose logs one tick opens."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found, and what the next one has to know; a lost cursor looks again."""

    pending: tuple[Pending, ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class _Round:
    """A round over the tables under one digest of the settings: the next one, and what it found.

    It is over at `next` None, once a whole round has found nothing.
    """

    digest: str
    next: int | None = 0
    found: bool = False

    @classmethod
    def read(cls, cursor: str, digest: str) -> _Round:
        """The round that a cursor speaks of, or a new one."""
        try:
            known, at, found = cursor.split(":")
            if known == digest:
                return cls(digest, int(at) if at else None, found == "1")
        except ValueError:
            pass
        return cls(digest)

    def after(self, count: int, found: bool) -> _Round:
        """The round after a look at the tables up to `LOOKS_PER_TICK_MAX` further."""
        at, found = (self.next or 0) + LOOKS_PER_TICK_MAX, self.found or found
        if at < count:
            return _Round(self.digest, at, found)
        return _Round(self.digest, 0 if found else None)

    def text(self) -> str:
        """It as a cursor."""
        at = "" if self.next is None else str(self.next)
        return f"{self.digest}:{at}:{self.found:d}"


def made_otherwise(database: Database, cursor: str) -> Looked:
    """The silvers to be made anew, of the tables that this look comes to.

    They come in turn, `LOOKS_PER_TICK_MAX` a look, until a whole round has found none. One that
    cannot be opened is left to its apply, which says why.
    """
    settings = database.settings
    at = _Round.read(cursor, _digest(settings))
    if at.next is None:
        return Looked((), at.text())
    tables = settings.active[at.next : at.next + LOOKS_PER_TICK_MAX]
    found = _others(database, tables, at.digest)
    return Looked(found, at.after(len(settings.active), bool(found)).text())


def _digest(settings: DatabaseSettings) -> str:
    """Of all that silvers are made by."""
    wanted = [(t, settings.tables[t].keys, settings.keeps_deleted(t)) for t in settings.active]
    return hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]


def _others(database: Database, tables: Sequence[str], digest: str) -> tuple[Pending, ...]:
    control = database.lake.control.read()
    snapshots = snapshots_by_target(database.lake.facts.events())
    found = []
    for key in tables:
        table = table_of(database, key)
        row = control.get(table.name.silver) or ControlRow(table.name.silver)
        try:
            before = look(table)
        except CdcError:
            continue
        position = Position.of(row, before.silver_id)
        if position.is_known and before.is_other(position, snapshots[table.name.bronze]):
            # Told apart by what is wanted: at one LSN it may be changed more than once.
            found.append(Pending(key, Due.MADE_OTHERWISE, f"{row.applied_lsn}-{digest}"))
    return tuple(found)
