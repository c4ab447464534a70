"""Steps that run one after the other, each over a burst: for one step, and where the size of an output is open."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nnhal.remote import RemoteBurst, RemoteExecution
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
        reports = [
            run_step(step.device, step.outputs, step.execution, burst, deadline_ns, outputs)
            for step, burst in self._steps
        ]
        return reports, outputs

    def close(self) -> None:
        """See Steps."""
        for _, burst in self._steps:
            burst.close()


def run_step(
    device: str,
    names: Sequence[str],
    execution: RemoteExecution,
    burst: RemoteBurst,
    deadline_ns: int,
    outputs: list[OutputReport],
) -> StepReport:
    """Run one step over a burst, and add what was said of those outputs that have names.

    Raises OutputTooSmallError, HalError, or TransportError where the device is gone.
    """
    started = time.perf_counter_ns()
    outcome = burst.run(execution, deadline_ns)
    ended = time.perf_counter_ns()
    if outcome.result.output_shapes:
        outputs += [
            OutputReport(name, shape.dimensions, shape.is_sufficient)
            for name, shape in zip(names, outcome.result.output_shapes, strict=False)
            if name
        ]
    if not outcome.result.output_sufficient_size:
        raise OutputTooSmallError(device, outputs)
    timing = outcome.result.timing
    return StepReport(
        device,
        ended - started,
        timing.time_on_device_ns,
        timing.time_in_driver_ns,
        outcome.staged_bytes,
        outcome.staging_ns,
    )
