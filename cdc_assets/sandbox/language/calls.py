"""Binding of function calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cdc_assets.sandbox.language import collation, errors, nodes, types
from cdc_assets.sandbox.language.aggregates import (
    AGGREGATES,
    OFFSETS,
    RANKING,
    aggregate,
    string_agg,
    window_function,
)
from cdc_assets.sandbox.language.binder import ExpressionBinder
from cdc_assets.sandbox.language.dates import ARGUMENTS as DATE_ARGUMENTS
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
    | {"SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "ATN2", "DEGREES", "RADIANS"}
)
_PLAIN_KEY = re.compile(r"(fold|sort_key|sort_key_case|guid_key)?\(?s\d+\.\w+\)?")
_ASCENDING, _DESCENDING = " ASC NULLS FIRST", " DESC NULLS LAST"
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
        value = scalar(".".join(node.name[-2:]).upper(), arguments, self.default_collation)
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
        fewest, most = DATE_ARGUMENTS.get(name, (1, 1))
        if not fewest <= len(given) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise errors.argument_count(name.lower(), wanted)
        if name in _WITH_PART:
            part = part_of(given.pop(0), name)
        arguments = [self.value(argument, scope) for argument in given]
        value = date_function(name, part, arguments)
        if all(a.is_constant for a in arguments):
            return fold(value, arguments[0])
        return value

    def _aggregate(self, name: str, node: nodes.Call, scope: Scope) -> Value:
        if node.window is not None:
            # Over a grouped query a windowed aggregate sees the groups, not their rows.
            arguments = self._windowed(node.arguments, scope)
            value = aggregate(name, arguments, distinct=node.distinct, star=node.star)
            return self._over(value, node.window, scope)
        if scope.inside_aggregate:
            raise errors.nested_aggregate()
        _check_aggregate(scope)
        scope.inside_aggregate, mark = True, len(scope.loose)
        try:
            arguments = [self.value(argument, scope) for argument in node.arguments]
            order = [
                self.order_text(self.value(item.expression, scope), descending=item.descending)
                for item in node.order
            ]
        finally:
            scope.inside_aggregate = False
        scope.covered(mark)
        scope.aggregated = True
        if name == "STRING_AGG":
            value = string_agg(arguments, order, distinct=node.distinct)
        elif order:
            raise SqlError(10757, f"The function '{name}' may not have a WITHIN GROUP clause.")
        else:
            value = aggregate(name, arguments, distinct=node.distinct, star=node.star)
        return self._over(value, None, scope)

    def _windowed(self, arguments: Sequence[nodes.Node], scope: Scope) -> list[Value]:
        """A window function's arguments; raises Msg 4108 or 4109 where it may not stand."""
        if scope.inside_aggregate or scope.inside_window:
            raise SqlError(
                4109,
                "Windowed functions cannot be used in the context of another windowed function or "
                "aggregate.",
                15,
            )
        if scope.clause:
            raise SqlError(
                4108, "Windowed functions can only appear in the SELECT or ORDER BY clauses.", 15
            )
        scope.inside_window = True
        try:
            return [self.value(argument, scope) for argument in arguments]
        finally:
            scope.inside_window = False

    def _window_only(self, name: str, node: nodes.Call, scope: Scope) -> Value:
        if node.window is None:
            raise SqlError(10753, f"The function '{name.lower()}' must have an OVER clause.", 15)
        if not node.window.order:
            raise SqlError(
                4112, f"The function '{name.lower()}' must have an OVER clause with ORDER BY.", 15
            )
        arguments = self._windowed(node.arguments, scope)
        return self._over(window_function(name, arguments), node.window, scope)

    def _over(self, value: Value, window: nodes.Window | None, scope: Scope) -> Value:
        text = "" if window is None else f" OVER ({self._window(window, scope)})"
        return value.derived(value.sql.replace("\x03", text))

    def _window(self, window: nodes.Window, scope: Scope) -> str:
        parts = []
        if window.partition:
            bound = [self.value(node, scope) for node in window.partition]
            keys = [self._lifted(collation.equality_key(v.sql, v.type), scope) for v in bound]
            parts.append("PARTITION BY " + ", ".join(keys))
        keys = []
        for item in window.order:
            if isinstance(item.expression, nodes.Subquery):
                continue  # ORDER BY (SELECT NULL): no order asked for
            value = self.value(item.expression, scope)
            if value.is_constant:
                raise _constant_window_key(value)
            collation.check_comparable(value.type)
            key = self._lifted(collation.order_key(value.sql, value.type), scope)
            keys.append(_directed(key, descending=item.descending))
        if keys:
            parts.append("ORDER BY " + ", ".join(keys))
        if window.frame:
            parts.append(window.frame)
        return " ".join(parts)

    def order_text(self, value: Value, *, descending: bool) -> str:
        """One ORDER BY key: NULL is the lowest value, as T-SQL has it."""
        collation.check_comparable(value.type)
        return _directed(collation.order_key(value.sql, value.type), descending=descending)

    def lifted_order(self, text: str, scope: Scope) -> str:
        """An ORDER BY key as a window may have it."""
        for direction in (_DESCENDING, _ASCENDING):
            if text.endswith(direction):
                return self._lifted(text.removesuffix(direction), scope) + direction
        return text

    def _lifted(self, key: str, scope: Scope) -> str:
        """A window's key; a computed one, which may raise an error, becomes a column of its own.

        DuckDB takes `error` for volatile, and orders no window by what is volatile.
        """
        if _PLAIN_KEY.fullmatch(key) or scope.keys or scope.aggregated or not scope.sources:
            return key
        return "lifted." + scope.lifted.setdefault(key, f"w{len(scope.lifted) + 1}")


def _directed(key: str, *, descending: bool) -> str:
    return key + (_DESCENDING if descending else _ASCENDING)


def _constant_window_key(value: Value) -> SqlError:
    if value.type.name in types.INTEGERS:
        return SqlError(
            5308,
            "Windowed functions, aggregates and NEXT VALUE FOR functions do not support integer "
            "indices as ORDER BY clause expressions.",
        )
    return SqlError(
        5309,
        "Windowed functions, aggregates and NEXT VALUE FOR functions do not support constants as "
        "ORDER BY clause expressions.",
    )


def _check_aggregate(scope: Scope) -> None:
    """Raise where a clause may hold no aggregate."""
    if scope.clause == "GROUP BY":
        raise errors.aggregate_in_group()
    refused = {
        "WHERE": (
            147,
            "An aggregate may not appear in the WHERE clause unless it is in a subquery contained "
            "in a HAVING clause or a select list, and the column being aggregated is an outer "
            "reference.",
        ),
        "ON": (
            1015,
            "An aggregate cannot appear in an ON clause unless it is in a subquery contained in a "
            "HAVING clause or select list, and the column being aggregated is an outer reference.",
        ),
        "SET": (157, "An aggregate may not appear in the set list of an UPDATE statement."),
    }.get(scope.clause)
    if refused is not None:
        raise SqlError(*refused, 15)
