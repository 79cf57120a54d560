"""The errors of the language, each with SQL Server's number and text."""

from __future__ import annotations

from cdc_assets.sandbox.results import SqlError


def syntax(near: str, *, keyword: bool = False) -> SqlError:
    """Msg 102 or 156: what the parser could not read."""
    if keyword:
        return SqlError(156, f"Incorrect syntax near the keyword '{near}'.", 15)
    return SqlError(102, f"Incorrect syntax near '{near}'.", 15)


def unsupported(what: str) -> SqlError:
    """Valid T-SQL that the sandbox knows it cannot do (its own number, above Microsoft's)."""
    return SqlError(40515, f"{what} is not supported by the sandbox.", 16)


def invalid_object(name: str) -> SqlError:
    """Msg 208."""
    return SqlError(208, f"Invalid object name '{name}'.")


def invalid_column(name: str) -> SqlError:
    """Msg 207."""
    return SqlError(207, f"Invalid column name '{name}'.")


def ambiguous_column(name: str) -> SqlError:
    """Msg 209."""
    return SqlError(209, f"Ambiguous column name '{name}'.")


def unbound_identifier(name: str) -> SqlError:
    """Msg 4104: a qualifier that no table of the query has."""
    return SqlError(4104, f'The multi-part identifier "{name}" could not be bound.')


def undeclared_variable(name: str) -> SqlError:
    """Msg 137."""
    return SqlError(137, f'Must declare the scalar variable "{name}".', 15)


def unknown_function(name: str) -> SqlError:
    """Msg 195."""
    return SqlError(195, f"'{name}' is not a recognized built-in function name.", 15)


def unknown_procedure(name: str) -> SqlError:
    """Msg 2812."""
    return SqlError(2812, f"Could not find stored procedure '{name}'.", 16, 62)


def argument_count(name: str, count: str) -> SqlError:
    """Msg 174, or 189 where a range of counts is right."""
    if " to " in count:
        return SqlError(189, f"The {name} function requires {count} arguments.", 15)
    return SqlError(174, f"The {name} function requires {count} argument(s).", 15)


def type_clash(source: object, target: object) -> SqlError:
    """Msg 206."""
    return SqlError(206, f"Operand type clash: {source} is incompatible with {target}")


def explicit_conversion(source: object, target: object) -> SqlError:
    """Msg 529."""
    return SqlError(529, f"Explicit conversion from data type {source} to {target} is not allowed.")


def nested_aggregate() -> SqlError:
    """Msg 130."""
    return SqlError(
        130,
        "Cannot perform an aggregate function on an expression containing an aggregate or a "
        "subquery.",
        15,
    )


def aggregate_in_group() -> SqlError:
    """Msg 144."""
    return SqlError(
        144,
        "Cannot use an aggregate or a subquery in an expression used for the group by list of a "
        "GROUP BY clause.",
        15,
    )


def collation_conflict(left: str | None, right: str | None) -> SqlError:
    """Msg 468."""
    return SqlError(
        468,
        f'Cannot resolve the collation conflict between "{left}" and "{right}" '
        "in the equal to operation.",
    )


def not_a_condition(near: str) -> SqlError:
    """Msg 4145."""
    return SqlError(
        4145,
        "An expression of non-boolean type specified in a context where a condition is expected, "
        f"near '{near}'.",
        15,
    )


def no_output_parameter(name: str) -> SqlError:
    """Msg 8162: OUTPUT was asked of a parameter that is declared without it."""
    return SqlError(
        8162,
        f'The formal parameter "{name}" was not declared as an OUTPUT parameter, but the actual '
        "parameter passed in requested output.",
        state=2,
    )
