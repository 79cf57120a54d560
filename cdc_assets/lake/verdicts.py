"""Verdicts as they stand in the lake, for those who may read and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.errors import TableReplacedError
from cdc_assets.lake.places import Places
from cdc_assets.lake.tables import StorageOptions
from cdc_assets.lake.unwritten import ToldFacts, control_rows
from cdc_assets.planning.finality import (
    Told,
    Verdict,
    bronze_verdict,
    history_verdict,
    silver_verdict,
)
from cdc_assets.planning.records import ControlRow
from cdc_assets.planning.spellings import bronze_of, is_history


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Control and the facts of one lake; `facts` is None where there are none."""

    control: Mapping[str, ControlRow]
    facts: ToldFacts | None
    facts_uri: str

    @classmethod
    def read(
        cls, control: str, facts: str, options: StorageOptions, *, facts_may_lack: bool = False
    ) -> Bookkeeping | None:
        """Both, control first, which is written last; None where there is no control table.

        Raises `TableReplacedError` where control stands and the facts do not: what is lost is
        told by them alone.
        """
        rows = control_rows(control, options)
        if rows is None:
            return None
        told = ToldFacts.at(facts, options)
        if told is None and not facts_may_lack:
            raise TableReplacedError(
                f"there is no Delta table at {facts}, and it alone knows what is lost",
                where=control,
                hint="Name the facts' place, or restore them from a copy.",
            )
        return cls(rows, told, facts)

    def target(self, bronze: str, places: Places) -> str | None:
        """What the facts call a bronze table, by any spelling of its name; None if they do not."""
        if self.facts is None:
            return None
        uri = places.of_call(bronze, frozenset(self.control))
        targets = self.facts.targets()
        target = places.there(self.facts_uri).row_at(targets, uri) if uri else None
        return target or places.row(targets, bronze)


def read_verdict(
    book: Bookkeeping | None, places: Places, target: str, bronze: str | None, granularity: str
) -> Verdict:
    """The verdict of the table that a caller names.

    It is a history's where it is called `history/<table>`, a silver table's where `bronze` names
    that table's, where it is called `silver/<table>`, or where its row holds a position; else one
    of bronze. Facts speak of bronze alone. Where they do not know the bronze of a silver or a
    history, what is lost of any table may be lost of this one.
    """
    control = book.control if book else {}
    rows = frozenset(control)
    name = places.row(rows, target) or places.name(target)
    uri = places.of_call(target, rows) or target
    row = control.get(name)
    source = bronze or bronze_of(name)
    is_bronze = source is None and (row is None or (row.applied_lsn or row.snapshot_lsn) is None)
    if is_bronze:
        source = target
    found = book.target(source, places) if book and source else None
    events = None
    if book and book.facts:
        events = [] if is_bronze and found is None else book.facts.events(found)
    told = Told(name, uri, row, events, granularity, is_of_all=not is_bronze and found is None)
    if is_bronze:
        return bronze_verdict(told)
    judge = history_verdict if is_history(name) else silver_verdict
    of_bronze = places.row(rows, source) if source else None
    return judge(told, control.get(of_bronze or ""))
