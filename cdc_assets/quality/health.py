"""How the tables of a database stand, from the small Delta tables alone: no source, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_assets.clock import utc_now
from cdc_assets.engines.database import Database
from cdc_assets.names import TableName
from cdc_assets.planning.finality import Told, Verdict, bronze_verdict, silver_verdict
from cdc_assets.planning.health import (
    CaptureHealth,
    Headroom,
    cleaned_up_to,
    judge_capture,
    judge_headroom,
    measured_event,
    paused_capture,
    paused_headroom,
)
from cdc_assets.planning.losses import Gap, unacknowledged
from cdc_assets.planning.records import ControlRow, FactsRow
from cdc_assets.planning.snapshots import by_target, snapshots_of
from cdc_assets.planning.verdict import PERIODS, Finality, judge_finality, paused_finality

LOOKS_REACH = (timedelta(minutes=15), timedelta(days=1), timedelta(days=3650))
"""How far back a table's newest batch is looked for: a quiet one is told every five minutes."""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """One table: how late it is, how far cleanup and capture are, and its two verdicts.

    `gap` is the oldest loss of changes that nobody has acknowledged.
    """

    finality: Finality
    headroom: Headroom
    capture: CaptureHealth
    bronze: Verdict
    silver: Verdict
    gap: Gap | None = None


def health(database: Database) -> dict[str, TableHealth]:
    """How every table of the settings stands now, by its key."""
    # Control first, which is written last: what is lost is at least what its verdicts have passed.
    control = database.lake.control.read()
    events = by_target(database.lake.facts.events())
    now = utc_now()
    names = [database.table(table) for table in database.settings.tables]
    active = [database.table(table) for table in database.settings.active]
    looks = _looks(database, active or names, now)
    cleaned = cleaned_up_to(now, ((control.get(n.bronze), looks.get(n.bronze)) for n in names))
    if cleaned is None and len(active) < len(names):
        # Only those that stand still, and were looked at long ago, may have seen it.
        looks = _looks(database, names, now)
    cleaned = cleaned_up_to(now, ((control.get(n.bronze), looks.get(n.bronze)) for n in names))
    found = {}
    for name in names:
        seen = _Seen(
            control.get(name.bronze),
            control.get(name.silver),
            events.get(name.bronze, ()),
            looks.get(name.bronze) or measured_event(events.get(name.bronze, ())),
        )
        health = _judge(database, name, seen, now)
        if database.settings.is_paused(name.key):
            least = database.settings.min_headroom_hours_of(name.key)
            health = replace(
                health,
                finality=paused_finality(now, seen.bronze, seen.silver),
                headroom=paused_headroom(seen.bronze, cleaned, least),
                capture=paused_capture(now, seen.bronze),
            )
        found[name.key] = health
    return found


def headrooms(database: Database, names: Sequence[TableName]) -> dict[TableName, Headroom]:
    """How far cleanup is behind these tables."""
    control, now = database.lake.control.read(), utc_now()
    looks = _looks(database, names, now)
    return {
        name: judge_headroom(
            now,
            control.get(name.bronze),
            looks.get(name.bronze),
            database.settings.min_headroom_hours_of(name.key),
        )
        for name in names
    }


@dataclass(frozen=True, slots=True)
class _Seen:
    bronze: ControlRow | None
    silver: ControlRow | None
    events: Sequence[FactsRow]
    newest: FactsRow | None


def _judge(database: Database, name: TableName, seen: _Seen, now: datetime) -> TableHealth:
    settings = database.settings
    wanted = settings.finality_of(name.key)
    bronze = Told(name.bronze, name.bronze_uri, seen.bronze, seen.events, wanted.granularity)
    silver = replace(bronze, name=name.silver, uri=name.silver_uri, row=seen.silver)
    return TableHealth(
        finality=judge_finality(
            now,
            seen.bronze,
            seen.silver,
            snapshots_of(seen.events),
            wanted.granularity,
            wanted.allowed_delay,
        ),
        headroom=judge_headroom(
            now, seen.bronze, seen.newest, settings.min_headroom_hours_of(name.key)
        ),
        capture=judge_capture(now, seen.bronze, PERIODS[wanted.granularity] + wanted.allowed_delay),
        bronze=bronze_verdict(bronze),
        silver=silver_verdict(silver, seen.bronze),
        gap=next(iter(unacknowledged(seen.events)), None),
    )


def _looks(database: Database, names: Sequence[TableName], now: datetime) -> dict[str, FactsRow]:
    """Each table's newest batch: mostly of the last minutes, else further back."""
    wanted = {name.bronze for name in names}
    found: dict[str, FactsRow] = {}
    for reach in LOOKS_REACH:
        found = database.lake.facts.newest_looks(now - reach)
        if wanted <= found.keys():
            break
    return found
