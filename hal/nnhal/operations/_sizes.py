"""Sizes that several operands must agree on, by name."""

from __future__ import annotations

from nnhal.operations._context import OperationContext
from nnhal.types.layout import Dimensions


class Sizes:
    """What the inputs' dimensions say of sizes such as batch and units. 0 is unknown before execution."""

    def __init__(self, op: OperationContext) -> None:
        self._op = op
        self._known: dict[str, int] = {}

    def learn(self, index: int, *names: str) -> None:
        """Take an input's axes for the sizes of those names; refuse it where an earlier input said otherwise."""
        dimensions = self._op.dimensions(index)
        if not dimensions and not self._op.executing:
            return
        if len(dimensions) != len(names):
            self._op.refuse(f"input {index} has rank {len(dimensions)}, expected {len(names)} ({', '.join(names)})")
        for name, size in zip(names, dimensions, strict=True):
            self.require(name, size, f"input {index}")

    def require(self, name: str, size: int, source: str) -> None:
        """Give a size that must be the one known already."""
        known = self._known.get(name, size)
        if size != known and (self._op.executing or 0 not in (size, known)):
            self._op.refuse(f"{source} says that the {name} is {size}, expected {known} as other inputs say")
        self._known[name] = known or size

    def __getitem__(self, name: str) -> int:
        return self._known.get(name, 0)

    def of(self, *names: str) -> Dimensions:
        """Dimensions of those sizes."""
        return tuple(self[name] for name in names)
