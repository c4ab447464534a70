"""The user's pins: operations that must run on a certain device."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.types import Model, Operation, OperationType
from nnhal_service.partition.candidate import PlacementError

PIN_FORMS = "name:GLOB, op:TYPE, index:N or index:N-M"
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Pin:
    """Operations that must run on a device.

    ``match`` is ``name:GLOB`` by the user's node names, ``op:TYPE`` by the HAL's types, or ``index:N`` or ``index:N-M``
    by the numbers of operations of main, M included.
    """

    match: str
    device: str
    operations: frozenset[int] | None = None
    """The numbers of the operations that it covers, if they are others than ``match`` says."""

    @property
    def is_by_number(self) -> bool:
        """Return whether it is by the numbers of operations."""
        return self.match.startswith("index:")

    def has_number(self, index: int) -> bool:
        """Return whether a pin by numbers names an operation in ``match``. Raises PlacementError if it is malformed."""
        numbers = _RANGE.fullmatch(self.match.partition(":")[2]) if self.is_by_number else None
        if numbers is None:
            raise PlacementError(f"pin {self.match!r}: expected {PIN_FORMS}")
        return int(numbers[1]) <= index <= int(numbers[2] or numbers[1])

    def require_form(self) -> None:
        """Raise PlacementError if ``match`` is malformed."""
        kind, _, pattern = self.match.partition(":")
        if kind not in ("name", "op") or not pattern:
            self.has_number(0)

    @property
    def is_of_main(self) -> bool:
        """Return whether it can cover operations of main only, and none of subgraphs."""
        return not self.match.startswith("op:")

    def covers(self, index: int, operation: Operation, names: Sequence[str]) -> bool:
        """Return whether the pin covers an operation, by its number, that stands for the named nodes.

        Raises PlacementError if ``match`` is malformed.
        """
        if self.operations is not None:
            return index in self.operations
        kind, _, pattern = self.match.partition(":")
        if kind == "name" and pattern:
            return any(fnmatch.fnmatchcase(name, pattern) for name in names)
        if kind == "op" and pattern:
            return operation.type <= max(OperationType) and OperationType(operation.type).name == pattern.upper()
        return self.has_number(index)


def holding_pins(model: Model, names: Sequence[Sequence[str]], pins: Sequence[Pin]) -> dict[int, Pin]:
    """Return the pin of each pinned operation of main; of several that cover it the last counts."""
    return {
        index: pin
        for pin in pins
        for index, operation in enumerate(model.main.operations)
        if pin.covers(index, operation, names[index])
    }
