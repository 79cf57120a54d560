"""What the server says of collations, and the one that a database's own text has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa

from cdc_assets.sandbox import collations
from cdc_assets.sandbox.engine.context import Context
from cdc_assets.sandbox.engine.rows import table
from cdc_assets.sandbox.language import codepages, errors, types, values
from cdc_assets.sandbox.language.scope import Relation, RelationColumn
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlType

_COLUMNS = (("name", types.SYSNAME), ("description", types.nvarchar(1000)))
_VERSIONS = {80: 0, 90: 1, 100: 2, 140: 3}

HELP = Relation(
    "fn_helpcollations",
    tuple(RelationColumn(name, f"x{i}", kind) for i, (name, kind) in enumerate(_COLUMNS, start=1)),
    ("fn_helpcollations",),
)
"""sys.fn_helpcollations(): what this server accepts."""


@cache
def helped() -> pa.Table:
    """Its rows."""
    return table(_COLUMNS, [(c.name, c.description) for c in collations.known()])


def collation_property(context: Context, arguments: Sequence[Value]) -> Value:
    """COLLATIONPROPERTY(name, property); NULL for what is no collation or no property."""
    del context
    if len(arguments) != 2:
        raise errors.argument_count("collationproperty", "2")
    found = collations.parse(str(arguments[0].constant))
    if found is None:
        return values.integer(None)
    wanted = {
        "CODEPAGE": found.code_page,
        "LCID": found.lcid,
        "COMPARISONSTYLE": found.style,
        "VERSION": _VERSIONS[found.version],
    }
    return values.integer(wanted.get(str(arguments[1].constant).upper()))


def typed(kind: SqlType, collation: str) -> SqlType:
    """A character type in a database's collation; any other type as it is."""
    return replace(kind, collation=collation) if kind.name in types.STRINGS else kind


def in_database(value: Value, collation: str) -> Value:
    """A variable as the current database sees it: in its collation, and in its code page."""
    kind = typed(value.type, collation)
    if (value.type.collation or DEFAULT_COLLATION) == kind.collation or kind == value.type:
        return value
    known = value.constant
    if kind.name in types.NARROW and isinstance(known, str) and not known.isascii():
        return values.text(codepages.literal(known, kind), kind)
    return replace(value, type=kind)
