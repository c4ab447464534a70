"""Named sizes on which several operands must agree."""

from __future__ import annotations

from nnhal.operations.context import OperationContext
from nnhal.types.layout import Dimensions


class Sizes:
    """Sizes such as batch and units, as known from the inputs' dimensions. Before execution, 0 is unknown."""

    def __init__(self, op: OperationContext) -> None:
        self._op = op
        self._known: dict[str, int] = {}

    def learn(self, index: int, *names: str) -> None:
        """Learn the named sizes from an input's axes. Refuse the input if it contradicts an earlier one."""
        dimensions = self._op.dimensions(index)
        if not dimensions and not self._op.executing:
            return
        if len(dimensions) != len(names):
            self._op.refuse(f"input {index} has rank {len(dimensions)}, expected {len(names)} ({', '.join(names)})")
        for name, size in zip(names, dimensions, strict=True):
            self.require(name, size, f"input {index}")

    def require(self, name: str, size: int, source: str) -> None:
        """Learn a size from ``source``. Refuse it if it contradicts the known one."""
        known = self._known.get(name, size)
        if size != known and (self._op.executing or 0 not in (size, known)):
            self._op.refuse(f"{source} makes the {name} {size}, expected {known} as in other inputs")
        self._known[name] = known or size

    def __getitem__(self, name: str) -> int:
        return self._known.get(name, 0)

    def of(self, *names: str) -> Dimensions:
        return tuple(self[name] for name in names)
