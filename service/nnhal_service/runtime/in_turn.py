"""Steps that run one after the other, each over a burst: for one step, and where the size of an output is open."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nnhal.remote import RemoteBurst
from nnhal_service.runtime.bound_step import BoundStep
from nnhal_service.runtime.reports import OutputReport, OutputTooSmallError, StepReport


class InTurn:
    """See Steps."""

    def __init__(self, steps: Sequence[BoundStep]) -> None:
        """Raises HalError where a device refuses, TransportError where one is gone."""
        self._steps: list[tuple[BoundStep, RemoteBurst]] = []
        try:
            for step in steps:
                self._steps.append((step, step.part.prepared.configure_execution_burst()))
        except BaseException:
            self.close()
            raise

    @property
    def socket_bytes(self) -> int:
        """See Steps."""
        return sum(burst.socket_bytes for _, burst in self._steps)

    def run(self, deadline_ns: int) -> tuple[list[StepReport], list[OutputReport]]:
        """See Steps."""
        outputs: list[OutputReport] = []
        return [_run(step, burst, deadline_ns, outputs) for step, burst in self._steps], outputs

    def close(self) -> None:
        """See Steps."""
        for _, burst in self._steps:
            burst.close()


def _run(step: BoundStep, burst: RemoteBurst, deadline_ns: int, outputs: list[OutputReport]) -> StepReport:
    started = time.perf_counter_ns()
    outcome = burst.run(step.execution, deadline_ns)
    ended = time.perf_counter_ns()
    if outcome.result.output_shapes:
        outputs += [
            OutputReport(name, shape.dimensions, shape.is_sufficient)
            for name, shape in zip(step.outputs, outcome.result.output_shapes, strict=False)
            if name
        ]
    if not outcome.result.output_sufficient_size:
        raise OutputTooSmallError(step.device, outputs)
    timing = outcome.result.timing
    return StepReport(
        step.device,
        ended - started,
        timing.time_on_device_ns,
        timing.time_in_driver_ns,
        outcome.staged_bytes,
        outcome.staging_ns,
    )
