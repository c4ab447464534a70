"""Counting direct runs when an operator asks: devices are asked, and one that is silent makes nobody wait for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from nnhal.threads import BriefThread
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_service.runtime import LoadedModel

_PATIENCE_SECONDS = 0.2
"""The time that an operator waits for the counts; later ones are in the next answer."""
_ANSWER_SECONDS = 1.0
"""The time that the devices may take, together."""


class DirectRunCounter:
    """Asks the devices of all loaded models how much was run directly. Safe to use from several threads."""

    def __init__(self, models: Callable[[], Iterable[LoadedModel]]) -> None:
        self._models = models
        self._lock = threading.Lock()
        self._asking: BriefThread | None = None

    def count(self) -> None:
        """Have direct runs counted: all of them, unless a device takes long."""
        with self._lock:
            asking = self._asking
            if asking is None or not asking.is_alive():
                asking = self._asking = BriefThread(self._ask, "count-direct-runs")
                asking.start()
        asking.join(_PATIENCE_SECONDS)

    def _ask(self) -> None:
        until = time.monotonic() + _ANSWER_SECONDS
        for model in with_pauses(self._models(), 8):
            model.count_direct_runs(until)
