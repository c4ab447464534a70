"""The served models of this process, and the sums of what all of them have counted since it started."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from nnhal_service.serving.statistics import RequestCounts


class CountedModel(Protocol):
    """A served model, for its counts."""

    @property
    def counts(self) -> RequestCounts:
        """What was counted so far."""


M = TypeVar("M", bound=CountedModel)


class ServedModelRegister(Generic[M]):
    """The models that are served, those that are being unloaded included. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[M, None] = {}
        self._closed = RequestCounts()

    def add(self, model: M) -> None:
        """Know a model until it is removed."""
        with self._lock:
            self._models[model] = None

    def remove(self, model: M) -> None:
        """Forget a model that is closed, but not what it has counted; harmless if it is unknown."""
        with self._lock:
            if model in self._models:
                del self._models[model]
                self._closed.add(model.counts)

    def all(self) -> list[M]:
        """The models, the oldest first."""
        with self._lock:
            return list(self._models)

    def counts(self) -> RequestCounts:
        """The sums over all models since the process started."""
        sums = RequestCounts()
        with self._lock:
            sums.add(self._closed)
            for model in self._models:
                sums.add(model.counts)
        return sums
