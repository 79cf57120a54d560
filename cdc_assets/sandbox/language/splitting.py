"""STRING_SPLIT, the table-valued function that depends on nothing but its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.sandbox.language import errors, types
from cdc_assets.sandbox.language.scope import Relation, RelationColumn
from cdc_assets.sandbox.language.strings import text
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import SqlError

_MOST_ARGUMENTS = 3


def split(arguments: Sequence[Value]) -> Relation:
    """Its rows, with their ordinal where the third argument is 1; raises Msg 214."""
    if not 1 < len(arguments) <= _MOST_ARGUMENTS:
        raise errors.argument_count("string_split", "2 to 3")
    value, separator = text(arguments[0]), text(arguments[1])
    if not separator.is_constant or len(str(separator.constant)) != 1:
        raise SqlError(
            214, "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'."
        )
    numbered = False
    if len(arguments) == _MOST_ARGUMENTS:
        flag = arguments[2]
        if not flag.is_constant:
            raise errors.unsupported("STRING_SPLIT with an ordinal that is no constant")
        numbered = bool(flag.constant)
    parts = f"string_split({value.sql}, {separator.sql})"
    name = "nvarchar" if value.type.name in types.NATIONAL else "varchar"
    kind = types.make(name, (value.type.length or 1,))
    columns = [RelationColumn("value", "x1", kind, value.nullable)]
    items = f"unnest({parts}) AS x1"
    if numbered:
        columns.append(RelationColumn("ordinal", "x2", types.BIGINT, False))
        items += f", CAST(generate_subscripts({parts}, 1) AS BIGINT) AS x2"
    return Relation(f"(SELECT {items})", tuple(columns), ("STRING_SPLIT",))
