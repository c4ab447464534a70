"""Launched devices, and running vectors against a device that may die of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from nnhal.errors import DeadObjectError, HalError
from nnhal.fence import FenceError
from nnhal.remote import RemoteFencedExecution
from nnhal.types import ErrorStatus, ExecutionResult
from nnhal_tools.conformance.runner import ENDED, TestResult, VectorRunner, Verdict, Way, result_of
from nnhal_tools.conformance.vectors import Vector
from nnhal_tools.up import RenewableDevice


def awaited(launched: RemoteFencedExecution) -> ExecutionResult:
    """Wait for a fenced execution, and return its result. Raises HalError if it failed."""
    try:
        if launched.fence is not None:
            with contextlib.suppress(FenceError):
                launched.fence.wait()
        info = launched.info()
    finally:
        launched.release()
    if info.status != ErrorStatus.NONE:
        raise HalError(info.status, info.message)
    return ExecutionResult(timing=info.timing_fenced)


class SurvivingRunner:
    """Runs vectors in one session after another: a test of which the device dies has failed, and the next ones run."""

    def __init__(self, device: RenewableDevice, ways: Sequence[Way], seconds: float | None = None) -> None:
        """With ``seconds``, each preparation and each execution has a deadline after so many."""
        self._device, self._ways, self._seconds = device, tuple(ways), seconds
        self._runner = VectorRunner(device.remote, self._ways, seconds)

    def run(self, vector: Vector) -> Iterator[TestResult]:
        """Run one vector in every way, one after another.

        Raises StartError if the device cannot be started again, DeadObjectError if a running one does not come back.
        """
        left = list(self._ways)
        while left:
            try:
                for result in self._runner.results(vector, tuple(left)):
                    left.pop(0)
                    yield result
            except DeadObjectError:
                yield result_of(vector, left.pop(0), Verdict.FAILED, self._device.end_in_words(), ENDED)
                self._device.renew()
                self._runner = VectorRunner(self._device.remote, self._ways, self._seconds)
