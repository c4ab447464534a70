"""Running vectors against a device that may die of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal.errors import DeadObjectError
from nnhal_tools.conformance.runner import ENDED, TestResult, VectorRunner, Verdict, Way, result_of
from nnhal_tools.conformance.vectors import Vector
from nnhal_tools.up import RenewableDevice


class SurvivingRunner:
    """Runs vectors in one session after another: a test that kills the device has failed, and the next ones run."""

    def __init__(
        self, device: RenewableDevice, ways: Sequence[Way], seconds: float | None = None, paints: bool = False
    ) -> None:
        """``seconds`` and ``paints`` are those of ``VectorRunner``."""
        self._device, self._ways, self._seconds, self._paints = device, tuple(ways), seconds, paints
        self._runner = VectorRunner(device.remote, self._ways, seconds, paints)

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
                self._runner = VectorRunner(self._device.remote, self._ways, self._seconds, self._paints)
