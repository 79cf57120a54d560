"""Binding of function calls."""

from __future__ import annotations

from cdc_assets.sandbox.language import collation, errors, nodes
from cdc_assets.sandbox.language.aggregates import (
    AGGREGATES,
    OFFSETS,
    RANKING,
    aggregate,
    string_agg,
    window_function,
)
from cdc_assets.sandbox.language.binder import ExpressionBinder
from cdc_assets.sandbox.language.dates import NAMES as DATE_FUNCTIONS
from cdc_assets.sandbox.language.dates import date_function, part_of
from cdc_assets.sandbox.language.folding import fold
from cdc_assets.sandbox.language.functions import scalar
from cdc_assets.sandbox.language.scope import Environment, Relation, Scope
from cdc_assets.sandbox.language.values import Value
from cdc_assets.sandbox.results import DEFAULT_COLLATION, SqlError

_WITH_PART = frozenset({"DATEPART", "DATENAME", "DATEADD", "DATEDIFF", "DATEDIFF_BIG"})
# Functions of SQL Server's that are not here: refused as such, not as unknown ones.
_REFUSED = frozenset(
    {"FORMAT", "FORMATMESSAGE", "PATINDEX", "SOUNDEX", "DIFFERENCE", "STR", "RAND", "CHECKSUM"}
    | {"BINARY_CHECKSUM", "ISNUMERIC", "ISDATE", "TRANSLATE", "PARSENAME", "JSON_VALUE", "ISJSON"}
    | {"JSON_QUERY", "COMPRESS", "DECOMPRESS", "CUME_DIST", "PERCENT_RANK", "GROUPING", "CUBE"}
    | {"ROLLUP", "SESSION_CONTEXT", "CONTEXT_INFO", "TIMEFROMPARTS", "DATETIMEFROMPARTS"}
    | {"DATETIME2FROMPARTS", "GREATEST", "LEAST", "STRING_ESCAPE", "NEWSEQUENTIALID"}
    | {"SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "ATN2", "LOG", "LOG10", "DEGREES", "RADIANS"}
)
_VOLATILE = frozenset({"NEWID"})


class CallBinder(ExpressionBinder):
    """Binds function calls: aggregates, window functions, scalar ones, the server's own."""

    def __init__(self, environment: Environment, default_collation: str = DEFAULT_COLLATION):
        super().__init__(environment, default_collation)
        self._tables: dict[str, Relation] = {}

    def call(self, node: nodes.Call, scope: Scope) -> Value:
        """Bind a call; raises Msg 195 or 4121 for an unknown function."""
        name = ".".join(node.name).upper()
        if name in AGGREGATES:
            return self._aggregate(name, node, scope)
        if name in RANKING | OFFSETS:
            return self._window_only(name, node, scope)
        if node.window is not None:
            raise SqlError(
                4113, f"The function '{name.lower()}' is not a valid windowing function.", 15
            )
        if node.star or node.distinct:
            raise errors.syntax("*")
        if node.order:
            raise errors.syntax("WITHIN")
        if name in DATE_FUNCTIONS:
            return self._date(name, node, scope)
        arguments = [self.value(argument, scope) for argument in node.arguments]
        if len(node.name) == 3:
            # [database].sys.function: the environment knows the databases.
            found = self.environment.function(node.name, arguments)
            if found is not None:
                return found
        value = scalar(".".join(node.name[-2:]).upper(), arguments)
        if value is not None:
            constants = arguments and all(a.is_constant for a in arguments)
            return fold(value, arguments[0]) if constants and name not in _VOLATILE else value
        found = self.environment.function(node.name, arguments)
        if found is None:
            if len(node.name) > 1:
                raise SqlError(
                    4121,
                    f'Cannot find either column "{node.name[0]}" or the user-defined function or '
                    f'aggregate "{".".join(node.name)}", or the name is ambiguous.',
                )
            if name in _REFUSED:
                raise errors.unsupported(name)
            raise errors.unknown_function(node.name[0])
        return found

    def _date(self, name: str, node: nodes.Call, scope: Scope) -> Value:
        given = list(node.arguments)
        part = ""
        if name in _WITH_PART:
            if len(given) != (2 if name in ("DATEPART", "DATENAME") else 3):
                raise errors.argument_count(name.lower(), "2" if name == "DATEPART" else "3")
            part = part_of(given.pop(0), name)
        elif len(given) != (2 if name in ("SWITCHOFFSET", "TODATETIMEOFFSET") else 1):
            raise errors.argument_count(name.lower(), "1")
        arguments = [self.value(argument, scope) for argument in given]
        value = date_function(name, part, arguments)
        if all(a.is_constant for a in arguments):
            return fold(value, arguments[0])
        return value

    def _aggregate(self, name: str, node: nodes.Call, scope: Scope) -> Value:
        if scope.inside_aggregate and node.window is None:
            raise SqlError(
                130,
                "Cannot perform an aggregate function on an expression containing an aggregate or "
                "a subquery.",
                15,
            )
        saved = scope.inside_aggregate
        # Over a grouped query a windowed aggregate sees the groups, not their rows.
        scope.inside_aggregate = node.window is None
        try:
            arguments = [self.value(argument, scope) for argument in node.arguments]
            order = [
                self.order_text(self.value(item.expression, scope), descending=item.descending)
                for item in node.order
            ]
        finally:
            scope.inside_aggregate = saved
        if name == "STRING_AGG":
            value = string_agg(arguments, order, distinct=node.distinct)
        elif order:
            raise SqlError(10757, f"The function '{name}' may not have a WITHIN GROUP clause.")
        else:
            value = aggregate(name, arguments, distinct=node.distinct, star=node.star)
        return self._over(value, node.window, scope)

    def _window_only(self, name: str, node: nodes.Call, scope: Scope) -> Value:
        if node.window is None or (name in RANKING and not node.window.order):
            raise SqlError(
                4112, f"The function '{name.lower()}' must have an OVER clause with ORDER BY.", 15
            )
        arguments = [self.value(argument, scope) for argument in node.arguments]
        return self._over(window_function(name, arguments), node.window, scope)

    def _over(self, value: Value, window: nodes.Window | None, scope: Scope) -> Value:
        text = "" if window is None else f" OVER ({self._window(window, scope)})"
        return value.derived(value.sql.replace("\x03", text))

    def _window(self, window: nodes.Window, scope: Scope) -> str:
        parts = []
        if window.partition:
            bound = [self.value(node, scope) for node in window.partition]
            keys = [collation.equality_key(v.sql, v.type) for v in bound]
            parts.append("PARTITION BY " + ", ".join(keys))
        keys = []
        for item in window.order:
            if isinstance(item.expression, nodes.Subquery):
                continue  # ORDER BY (SELECT NULL): no order asked for
            value = self.value(item.expression, scope)
            if value.is_constant:
                raise SqlError(
                    5308,
                    "Windowed functions do not support integer indices as ORDER BY clause "
                    "expressions.",
                )
            keys.append(self.order_text(value, descending=item.descending))
        if keys:
            parts.append("ORDER BY " + ", ".join(keys))
        if window.frame:
            parts.append(window.frame)
        return " ".join(parts)

    def order_text(self, value: Value, *, descending: bool) -> str:
        """One ORDER BY key: NULL is the lowest value, as T-SQL has it."""
        collation.check_comparable(value.type)
        key = collation.order_key(value.sql, value.type)
        return f"{key} DESC NULLS LAST" if descending else f"{key} ASC NULLS FIRST"
