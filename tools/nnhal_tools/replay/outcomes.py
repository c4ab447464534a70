"""Where the sessions of a replay tell what they find."""

from __future__ import annotations

import threading

from nnhal.types import Model
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.replay.report import Difference, ReplayReport


class Found:
    """Fills a report for one copy of the recording. Safe to use from several threads."""

    def __init__(self, report: ReplayReport, lock: threading.Lock, copy: int) -> None:
        """``lock`` guards the report, which other copies fill too."""
        self._report = report
        self._lock = lock
        self._copy = copy
        self.models: dict[int, Model] = {}
        """The models that were prepared, by their numbers."""
        self.first_differing: dict[int, tuple[wire.RecordedRequest, wire.RecordedExecution]] = {}
        """The first execution of each model whose values differ, with its request."""

    def made(self) -> None:
        """Count a call."""
        with self._lock:
            self._report.calls += 1

    def compared(self) -> None:
        """Count a value that was compared."""
        with self._lock:
            self._report.compared_outputs += 1

    def differ(self, call: str, what: str, model: int = 0) -> None:
        """Note a difference."""
        with self._lock:
            self._report.differences.append(Difference(call, what, model, self._copy))

    def differing(self, model: int, request: wire.RecordedRequest, execution: wire.RecordedExecution) -> None:
        """Keep the first execution of a model whose values differ."""
        with self._lock:
            self.first_differing.setdefault(model, (request, execution))

    def decline(self, model: int, reasons: str) -> None:
        """Note that the device declines a model."""
        with self._lock:
            self._report.declined[model] = reasons

    def leave_out(self, reason: str) -> None:
        """Count a call that was not made, or not compared, for a reason."""
        with self._lock:
            self._report.left_out[reason] += 1
