"""The arithmetic of the operations: one pure function from arrays to arrays for each.

A kernel takes an OperationContext whose values are all known, and returns one array for each output, in the output's
element type and dimensions.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping

from nnhal.kernels.array_types import Array
from nnhal.lazy_table import LazyTable
from nnhal.operations import MODULES, OperationContext
from nnhal.types import OperationType

Kernel = Callable[[OperationContext], tuple[Array, ...]]


def _name(kind: OperationType) -> str:
    """Return the name of an operation's kernel: its own, with an underscore behind a name of Python's."""
    name = kind.name.lower()
    return f"{name}_" if hasattr(builtins, name) else name


KERNELS: Mapping[OperationType, Kernel] = LazyTable(
    __name__, {kind: f"{module}:{_name(kind)}" for kind, module in MODULES.items()}
)
"""Every operation that cpu_ref computes."""
