"""The help of settings: what stands below them in their models, read only where it is shown.

pydantic can collect it when a model is made, and then looks through every loaded module's file:
a tenth of a second for each program that reads settings, most of which show no help.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap

from pydantic import BaseModel


@functools.cache
def helps_of(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's fields by their names, those of its bases among them."""
    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if part is not BaseModel and issubclass(part, BaseModel):
            found |= _own(part)
    return found


def _own(model: type[BaseModel]) -> dict[str, str]:
    parsed = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(model))))
    body = next(node.body for node in parsed if isinstance(node, ast.ClassDef))
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
