"""Generations of a stream: which checkpoint speaks for a table, and when a new one has to begin.

Every batch of a table, a sync's or a stream's, takes the next version of one transaction id. A
stream's says which generation and micro-batch it is, so a stream that finds another's on top of
its own knows that its checkpoint is not the table's position any more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cdc_assets.errors import AnotherWriterError, CheckpointError
from cdc_assets.planning.offsets import Offset
from cdc_assets.planning.records import ChangeCommit, StreamMark


@dataclass(frozen=True, slots=True)
class Generation:
    """One checkpoint of a stream: `id` is its own, whatever becomes of its folder.

    `began_on` is the table's last batch id before it, `start` its position then.
    """

    number: int
    id: str
    began_on: int
    start: Offset

    def to_json(self) -> str:
        """The generation's file."""
        return json.dumps(
            {
                "generation": self.number,
                "id": self.id,
                "began_on": self.began_on,
                "start": self.start.to_dict(),
            }
        )

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Generation:
        """Read it back; raises `CheckpointError`."""
        try:
            value = json.loads(text)
            start = Offset.from_dict(value["start"])
            return cls(int(value["generation"]), str(value["id"]), int(value["began_on"]), start)
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                "the file of a generation cannot be read",
                where=where,
                hint="Something else wrote it: restore the checkpoint's folder, or remove it.",
            ) from None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a checkpoint is: the newest micro-batch that was planned, and the last one's end.

    `planned_end` is where the planned one ends, done or not.
    """

    planned: int | None = None
    end: Offset | None = None
    planned_end: Offset | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The table's last version, its commit as far as the log tells, and a loss healed since.

    `owns_id` says that the transaction id is the generation's own: what the log does not tell of is
    then no other writer's, and `end` is how far its rows reach.
    """

    version: int | None
    newest: ChangeCommit | None
    after_loss: Offset | None = None
    end: Offset | None = None
    owns_id: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """A stream that appends one micro-batch; `owns_id` is as `Head` has it."""

    generation: Generation
    micro_batch: int
    owns_id: bool = False

    @property
    def mark(self) -> StreamMark:
        """What its commits say of it."""
        return StreamMark(self.generation.id, self.generation.number, self.micro_batch)

    @property
    def others_until(self) -> int:
        """Up to which batch id bronze's rows are of other transaction ids, so none to tell of."""
        return self.generation.began_on if self.owns_id else 0

    def check(self, version: int | None, newest: ChangeCommit | None, *, where: str) -> None:
        """Raise `AnotherWriterError` where the newest batch is another's."""
        if not is_ours(self.generation, version, newest, owns_id=self.owns_id):
            raise AnotherWriterError(
                f"its batch {version} is not of this stream",
                where=where,
                hint="A sync or another stream writes the table. Start this one again once that"
                " has ended: it goes on where the table is.",
            )


def is_ours(
    generation: Generation, version: int | None, newest: ChangeCommit | None, *, owns_id: bool
) -> bool:
    """Whether only this generation has appended since it began.

    What is not told is another's, unless no other writes the transaction id.
    """
    if (version or 0) <= generation.began_on:
        return True
    if newest is None:
        return owns_id
    return newest.stream is not None and newest.stream.id == generation.id


def why_anew(generation: Generation | None, progress: Progress, head: Head) -> str | None:
    """Why a checkpoint cannot go on, as a sentence's end; None where it can."""
    if generation is None:
        return "the checkpoint is new" if head.version is None else "the checkpoint is not there"
    if not is_ours(generation, head.version, head.newest, owns_id=head.owns_id):
        return f"another writer has appended batch {head.version}"
    mark = head.newest.stream if head.newest else None
    is_own = mark is not None and mark.id == generation.id
    if is_own and mark is not None and mark.micro_batch > _number(progress.planned):
        return (
            f"the checkpoint knows no micro-batch {mark.micro_batch}, which is in bronze: it was"
            " set back"
        )
    last = progress.end or generation.start
    if head.end is not None and head.end.lsn > (progress.planned_end or generation.start).lsn:
        return f"the checkpoint ends before {head.end.lsn}, which is in bronze: it was set back"
    if head.after_loss is not None and head.after_loss.lsn > last.lsn:
        return "a snapshot was taken for changes that were lost"
    return None


def next_number(generation: Generation | None, head: Head) -> int:
    """The number of a new generation: above those that the checkpoint and bronze know."""
    known = [generation.number] if generation else []
    if head.newest is not None and head.newest.stream is not None:
        known.append(head.newest.stream.generation)
    return max(known, default=-1) + 1


def _number(planned: int | None) -> int:
    return -1 if planned is None else planned
