"""Faults that were injected on purpose, as messages name them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from nnhal.types import Copy

_NAMED = re.compile(r"""injected fault ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


def injected_fault(name: str) -> str:
    return f"injected fault {name!r}"


def injected_faults_in(message: str) -> list[str]:
    return [str(ast.literal_eval(name)) for name in _NAMED.findall(message)]


def injected_faults_of(copies: Iterable[Copy]) -> str:
    """Return what a message says of the faults that an execution has noted, in brackets; empty if there are none."""
    faults = ", ".join(injected_fault(copy.injected) for copy in copies if copy.injected)
    return f" ({faults})" if faults else ""
