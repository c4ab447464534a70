"""Sentences of the code's own declarations: the string below a constant, a field or a member of an enumeration."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from types import ModuleType


@cache
def strings_below(owner: type | ModuleType) -> Mapping[str, str]:
    """Return the string below each name that a class or a module declares, which Python does not keep."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner))).body
    if isinstance(owner, type):
        (definition,) = body
        assert isinstance(definition, ast.ClassDef)
        body = definition.body
    found = {}
    for statement, following in pairwise(body):
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            for name in _names(statement):
                found[name] = inspect.cleandoc(str(following.value.value))
    return found


def _names(statement: ast.stmt) -> list[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]
