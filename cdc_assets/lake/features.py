"""Which Delta table features delta-rs can do, and what of a table is beyond it.

What a table has stands in its protocol. delta-rs opens a table with features that it cannot do, so
that its log can be read all the same; it then refuses to scan or to commit. The lists are
delta-rs's own, as a test finds them.
"""

from __future__ import annotations

from deltalake import DeltaTable

READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features of a table that delta-rs scans."""

WRITABLE = READABLE | {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
}
"""Features of a table that delta-rs commits to."""


_OF_A_COLUMN = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def asks_each_row(table: DeltaTable) -> bool:
    """Whether a writer must look at each row: constraints, and columns that Delta fills.

    A protocol with a list of features may name them without a use; an older one has no list.
    """
    if any(name.startswith("delta.constraints.") for name in table.metadata().configuration):
        return True
    if any(key in field.metadata for field in table.schema().fields for key in _OF_A_COLUMN):
        return True
    return any(not field.nullable for field in table.schema().fields)


def has_marked_rows(table: DeltaTable) -> bool:
    """Whether rows of a file may be marked as deleted, so that its statistics count them still."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def unreadable(table: DeltaTable) -> str:
    """A feature of the table that delta-rs cannot scan it with; empty where there is none."""
    return min(set(table.protocol().reader_features or ()) - READABLE, default="")


def unwritable(table: DeltaTable) -> str:
    """A feature of the table that delta-rs cannot commit with; empty where there is none."""
    return min(set(table.protocol().writer_features or ()) - WRITABLE, default="")


def beyond_reading(table: DeltaTable) -> str:
    """What delta-rs cannot do to read the table, as the end of a sentence; else empty."""
    feature = unreadable(table)
    return f"read a table with the Delta feature {feature}" if feature else ""


def beyond_writing(table: DeltaTable) -> str:
    """What delta-rs cannot do to write the table, as the end of a sentence; else empty."""
    feature = unwritable(table)
    return f"write a table with the Delta feature {feature}" if feature else ""
