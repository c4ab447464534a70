"""The limit on versions of models that are loaded at a time."""

from __future__ import annotations

import threading

from nnhal_service.serving.errors import ErrorKind, ServingError


class VersionLimit:
    """Counts the versions that are loaded or being loaded. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        """``limit`` is 0 for no limit."""
        self._limit = limit
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}

    def take(self, name: str, count: int) -> None:
        """Reserve ``count`` versions for a model in place of those that it has, which they replace.

        Raises RESOURCE_EXHAUSTED if other models leave too few; the model then keeps what it has.
        """
        with self._lock:
            own = self._taken.get(name, 0)
            others = sum(self._taken.values()) - own
            if count > own and self._limit and others + count > self._limit:
                raise ServingError(
                    ErrorKind.RESOURCE_EXHAUSTED,
                    f"failed to load '{name}': it has {count} versions and other models have {others} loaded; "
                    f"all together may have {self._limit}, which --max-models allows",
                )
            self._taken[name] = max(own, count)

    def keep(self, name: str, count: int) -> None:
        """Set the number of versions of a model that are loaded now."""
        with self._lock:
            if count:
                self._taken[name] = count
            else:
                self._taken.pop(name, None)
