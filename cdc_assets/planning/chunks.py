"""The chunks a chunked snapshot is read in: neighbours in key order that tile the key space."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.lsn import Lsn
from cdc_assets.planning.keysets import Key


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How large chunks are to be, in rows, and what a table without a unique index is cut on."""

    rows: int
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one range of keys, from `lower` to below `upper`.

    `number` counts from 0 in key order. Bounds are typed text, as `planning.keysets.Key`; None is
    an open end, below for the first chunk alone. `rows` is what was counted when it was planned.
    """

    number: int
    lower: Key | None
    upper: Key | None
    rows: int


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """All chunks of one snapshot, in key order, as they were planned once and are never changed.

    `keys` are the source names of the columns it cuts, in the order of the bounds' values.
    """

    plan_id: str
    snapshot: Lsn
    keys: tuple[str, ...]
    chunks: tuple[Chunk, ...]
