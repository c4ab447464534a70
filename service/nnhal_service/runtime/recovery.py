"""What happens to a run when a device fails it: its steps run in turn, those of the device on the CPU in its place.

Inputs are never modified, so that a run can begin again at its first step. A step that its own device cannot run is run
once by the device that stands in, with the same values, and the run goes on (NNAPI's partial fallback); where that
fails as well, the run has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.remote import RemoteBurst, RemoteExecution
from nnhal.types import ExecutionConfig, Request
from nnhal_service.partition import Fallback
from nnhal_service.runtime.in_turn import run_step
from nnhal_service.runtime.parts import Part, Parts
from nnhal_service.runtime.reports import OutputReport, OutputTooSmallError, StepReport

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """A step's request, and the names of those outputs that are the model's, empty for the others."""

    device: str
    request: Request
    outputs: Sequence[str]


class Recovery:
    """Runs the steps of one context one after the other, wherever they can run. Once at a time."""

    def __init__(
        self, parts: Parts, steps: Sequence[BoundRequest], config: ExecutionConfig, fallback: Fallback
    ) -> None:
        self._parts = parts
        self._steps = tuple(steps)
        self._config = config
        self._fallback = fallback
        self._bound: dict[Part, tuple[RemoteExecution, RemoteBurst]] = {}

    def may_recover(self, error: NnhalError) -> bool:
        """Whether a failed run may begin again: not where an output was too small, which any device would say."""
        return self._parts.may_fall_back and not isinstance(error, OutputTooSmallError)

    def run(self, deadline_ns: int, error: NnhalError) -> tuple[list[StepReport], list[OutputReport]]:
        """Run all steps after ``error``. Raises HalError or TransportError, the first one where nothing helps."""
        if self._fallback == Fallback.WARN:
            _log.warning("a run begins again without a device that failed", reason=str(error))
        outputs: list[OutputReport] = []
        try:
            return [self._run(number, step, deadline_ns, outputs) for number, step in enumerate(self._steps)], outputs
        except OutputTooSmallError:
            raise
        except NnhalError as further:
            raise _of_both(error, further) from further

    def close(self) -> None:
        """Release what was bound."""
        for execution, burst in self._bound.values():
            burst.close()
            execution.release()
        self._bound.clear()

    def _run(self, number: int, step: BoundRequest, deadline_ns: int, outputs: list[OutputReport]) -> StepReport:
        known = len(outputs)
        try:
            return self._on(self._parts.living(number), step, step.device, deadline_ns, outputs)
        except OutputTooSmallError:
            raise
        except NnhalError as error:
            del outputs[known:]
            part = self._parts.stand_in(number)
            if part.member.name == step.device:
                raise
            _log.info(
                "a device stands in", step=number, device=step.device, stand_in=part.member.name, reason=str(error)
            )
            return self._on(part, step, part.member.name, deadline_ns, outputs)

    def _on(
        self, part: Part, step: BoundRequest, device: str, deadline_ns: int, outputs: list[OutputReport]
    ) -> StepReport:
        if part not in self._bound:
            execution = part.prepared.create_reusable_execution(step.request, self._config)
            self._bound[part] = execution, part.prepared.configure_execution_burst()
        execution, burst = self._bound[part]
        return run_step(device, step.outputs, execution, burst, deadline_ns, outputs)


def _of_both(first: NnhalError, further: NnhalError) -> NnhalError:
    message = f"{first}; and without the device: {further}"
    if isinstance(further, HalError):
        return HalError(further.status, message)
    if isinstance(first, HalError):
        return HalError(first.status, message)
    kind = DeadObjectError if isinstance(further, DeadObjectError) else TransportError
    return kind(message)
