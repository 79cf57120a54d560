"""LIKE's patterns as DuckDB's."""

from __future__ import annotations

import re

from cdc_assets.sandbox.language import collation, errors, types
from cdc_assets.sandbox.language.values import Value, quote
from cdc_assets.sandbox.results import SqlError, SqlType


def like(text: Value, pattern: Value, escape: Value | None, kind: SqlType) -> str:
    """`text LIKE pattern [ESCAPE escape]` under the collation of `kind`."""
    ignore = collation.searches_any_case(kind, "LIKE")
    if not isinstance(pattern.constant, str):
        if pattern.is_constant and pattern.constant is None:
            return "(NULL)"
        if escape is not None:
            raise errors.unsupported("LIKE … ESCAPE with a pattern that is no constant")
        return _dynamic(text, pattern, ignore=ignore)
    mark = ""
    if escape is not None:
        if not isinstance(escape.constant, str) or len(escape.constant) != 1:
            raise SqlError(506, "The invalid escape character was specified in a LIKE predicate.")
        mark = escape.constant
    expression = regular_expression(pattern.constant, mark)
    if {text.type.name, pattern.type.name} <= types.NARROW:
        expression += " *"  # trailing blanks count only in Unicode
    flags = "si" if ignore else "s"
    return f"regexp_full_match({text.sql}, {quote(expression)}, '{flags}')"


def _dynamic(text: Value, pattern: Value, *, ignore: bool) -> str:
    """A pattern only known per row: without character sets it is DuckDB's own LIKE."""
    word = "ILIKE" if ignore else "LIKE"
    return (
        f"CASE WHEN contains({pattern.sql}, '[') THEN "
        f"error({quote(chr(2) + '40515|16|1|A set in a LIKE pattern that is no constant')}"
        f" || ' is not supported by the sandbox.') ELSE {text.sql} {word} {pattern.sql} END"
    )


def regular_expression(pattern: str, escape: str) -> str:
    """A LIKE pattern as a regular expression of a whole text; `escape` may be empty."""
    out = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if escape and char == escape and position + 1 < len(pattern):
            out.append(re.escape(pattern[position + 1]))
            position += 2
            continue
        end = pattern.find("]", position + 2) if char == "[" else -1
        if char == "[" and end > 0:
            out.append(_character_set(pattern[position + 1 : end]))
            position = end + 1
            continue
        out.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        position += 1
    return "".join(out)


def _character_set(inner: str) -> str:
    negated = inner.startswith("^")
    body = re.sub(r"([\\\]\[^])", r"\\\1", inner[1:] if negated else inner)
    return f"[{'^' if negated else ''}{body}]"
