"""How many versions of models may be loaded at a time."""

from __future__ import annotations

import threading

from nnhal_service.serving.errors import ErrorKind, ServingError


class Places:
    """A place for each version that is loaded or being loaded. Safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        """0 is no limit."""
        self._limit = limit
        self._lock = threading.Lock()
        self._taken: dict[str, int] = {}

    def take(self, name: str, count: int) -> None:
        """Take places for so many versions of a model; those that it has already count, as they are replaced.

        Raises RESOURCE_EXHAUSTED, and leaves the model those that it has.
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
        """Give back all places of a model but so many."""
        with self._lock:
            if count:
                self._taken[name] = count
            else:
                self._taken.pop(name, None)
