"""A step of a plan, tied to memory: one reusable execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nnhal.remote import RemoteExecution
from nnhal.reports import StepReport
from nnhal.types import ExecutionConfig, Request
from nnhal_service.fallback import Side
from nnhal_service.runtime.cancellation import Cancellation
from nnhal_service.runtime.parts import Part
from nnhal_service.runtime.reports import OutputReport


@dataclass(frozen=True, slots=True)
class BoundStep:
    """``outputs`` has the names of those outputs of the step that are the model's, empty for the others.

    ``is_asynchronous``: the device shows its results only when it is synced.
    """

    device: str
    is_asynchronous: bool
    part: Part
    execution: RemoteExecution
    outputs: Sequence[str]


def bind_step(side: Side, outputs: Sequence[str], part: Part, request: Request, config: ExecutionConfig) -> BoundStep:
    """Tie a step to memory. Raises HalError where the device refuses, TransportError where it is gone."""
    execution = part.prepared.create_reusable_execution(request, config)
    return BoundStep(side.name, side.is_asynchronous, part, execution, outputs)


class Steps(Protocol):
    """The steps of a plan, ready to run one after the other or as far as possible at once. They run once at a time."""

    @property
    def socket_bytes(self) -> int:
        """Bytes that went to devices and back since the start."""
        ...

    @property
    def done(self) -> Sequence[StepReport] | None:
        """After a run that failed, the steps that ended well, which need not run again; None where nobody knows."""
        ...

    def run(
        self, deadline_ns: int, cancellation: Cancellation | None = None
    ) -> tuple[list[StepReport], list[OutputReport]]:
        """Run all of them. Raises HalError, or TransportError where a device is gone.

        Where the run is given up, CancelledRunError: the steps that had begun have ended, and no other will begin.
        """
        ...

    def close(self) -> None:
        """Release what runs them."""
        ...
