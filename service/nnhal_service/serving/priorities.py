"""What the priority of a request is to a device."""

from __future__ import annotations

from collections.abc import Iterable

from nnhal.types import Priority
from nnhal_service.serving.config import ServingConfig

_WITHOUT_LEVELS = {1: Priority.HIGH, 2: Priority.MEDIUM, 3: Priority.LOW}


class Priorities:
    """Of one model's requests, whose priority 1 is the highest, as Triton's.

    Requests of the default level run with the model's own priority, those above it with HIGH, those below it with LOW.
    Without levels 1, 2 and 3 are HIGH, MEDIUM and LOW, and all else is the model's own.
    """

    def __init__(self, config: ServingConfig, own: Priority) -> None:
        """``own`` is what the model was prepared with."""
        self._levels = config.priority_levels
        self._default = config.default_level
        self._own = own

    def of(self, requested: Iterable[int]) -> Priority | None:
        """The most urgent of a batch; None where it is the model's own."""
        urgent = max(map(self._priority, requested))
        return None if urgent == self._own else urgent

    def _priority(self, requested: int) -> Priority:
        if not self._levels:
            return _WITHOUT_LEVELS.get(requested, self._own)
        if requested == self._default or not 1 <= requested <= self._levels:
            return self._own
        return Priority.HIGH if requested < self._default else Priority.LOW
