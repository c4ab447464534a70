"""Runs of clients that bring memory of their own: past the queue, and counted with all others.

What a client may bind is limited where it binds. Its runs are ordered among all others on the device.
"""

from __future__ import annotations

import time

from nnhal.types import RunUsage
from nnhal_service.runtime.watcher import Context
from nnhal_service.serving.observer import FailureReason
from nnhal_service.serving.request import RequestTiming
from nnhal_service.serving.statistics import StatisticsRecorder


class ClientRuns:
    """See RunWatcher. Each run counts as a request, and as an execution of its own."""

    def __init__(self, has_batches: bool, recorder: StatisticsRecorder) -> None:
        self._has_batches = has_batches
        self._recorder = recorder

    def ran(self, context: Context, duration_ns: int) -> None:
        """See RunWatcher."""
        size = self._size(context)
        ended = time.monotonic_ns()
        began = ended - duration_ns
        self._recorder.executed(size, 0, duration_ns, 0)
        self._recorder.succeeded(RequestTiming(began, began, began, began, ended, ended), size)

    def failed(self, context: Context, duration_ns: int) -> None:
        """See RunWatcher."""
        self._recorder.failed(FailureReason.BACKEND, duration_ns)

    def lent(self, context: Context, usage: RunUsage) -> None:
        """See RunWatcher."""
        self._recorder.counted(usage, self._size(context))

    def _size(self, context: Context) -> int:
        return context.items if self._has_batches else 1
