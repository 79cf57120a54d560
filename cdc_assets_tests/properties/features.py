"""What random histories are about, as names: counted where it happened, so that none is rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cdc_assets_tests.properties.keys import Key
from cdc_assets_tests.properties.model import Table
from cdc_assets_tests.properties.statements import Delete, Insert, Move, Statement, keys_of

DELETED = "deleted"
REINSERTED = "a key that was deleted is inserted again"
AS_DELETE_AND_INSERT = "a key update as 1 and 2"
AS_UPDATE = "a key update as 3 and 4"
RING = "keys that change places"
OFTEN = "a row changed several times in a transaction"
NULL_KEY = "a NULL key"


def features(
    done: Sequence[Statement], tables: Sequence[Table], gone: Sequence[set[Key]]
) -> Iterator[str]:
    """Those of a committed transaction; `gone` are each table's keys that were deleted before."""
    touched: Counter[tuple[int, Key]] = Counter()
    for statement in done:
        kind = tables[statement.table].kind
        keys = [kind.canonical(key) for key in keys_of(statement)]
        touched.update((statement.table, key) for key in set(keys))
        if any(None in key for key in keys):
            yield NULL_KEY
        if isinstance(statement, Insert) and gone[statement.table].intersection(keys):
            yield REINSERTED
        if isinstance(statement, Delete):
            gone[statement.table].update(keys)
            yield DELETED
        if isinstance(statement, Move):
            several = len(statement.pairs) > 1 and not kind.alternate
            yield AS_DELETE_AND_INSERT if several else AS_UPDATE
            if is_ring(statement):
                yield RING
    if max(touched.values(), default=0) > 1:
        yield OFTEN


def is_ring(statement: Statement) -> bool:
    """Whether several rows change places among each other."""
    if not isinstance(statement, Move) or len(statement.pairs) < 2:
        return False
    return {old for old, _ in statement.pairs} == {new for _, new in statement.pairs}
