"""The proxy of a stage of a wired chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.descriptor import Descriptor
from nnhal.remote.answers import require_handle
from nnhal.remote.calls import Calls
from nnhal.types import RunUsage
from nnhal.v1 import backend_pb2_grpc
from nnhal.v1 import chain_pb2 as wire


@dataclass(slots=True)
class StageDescriptors:
    """Descriptors that a device needs to serve a stage: ends of connected SOCK_SEQPACKET sockets, and memory."""

    in_bells: Sequence[Descriptor] = ()
    """Ring before the stage runs."""
    out_bells: Sequence[Descriptor] = ()
    """The stage rings them when it has run."""
    start_bells: Sequence[Descriptor] = ()
    """The entry rings them before it runs."""
    end_bells: Sequence[Descriptor] = ()
    """Ring before the exit answers."""
    calls: Descriptor | None = None
    """The socket that brings calls to the entry."""
    answers: Descriptor | None = None
    """The same socket, which takes the answers of the exit."""
    cancelled: Descriptor | None = None
    """Sealed shared memory that begins with the number of the last cancelled run."""


class RemoteStage:
    """A stage of this session. Released by ``unwire``, with its execution, or with the session."""

    def __init__(self, calls: Calls, handle: int) -> None:
        self._calls = calls
        self._stub = backend_pb2_grpc.BackendServiceStub(calls.rpc)
        self.handle = handle

    def usage(self, timeout: float | None = None) -> RunUsage:
        """Return the counts of the runs that it has answered. ``timeout`` is in seconds."""
        answer = self._calls.call(self._stub.GetStageUsage, wire.GetStageUsageRequest(stage=self.handle), timeout)
        return RunUsage(answer.runs, answer.failed_runs, answer.duration_ns)

    def unwire(self) -> bool:
        """End the chain and wait a moment for its execution; return whether that has ended. If not, call again.

        In a process that is gone it has ended.
        """
        if self._calls.hung_up:
            return True
        return not self._calls.call(self._stub.UnwireStep, wire.UnwireStepRequest(stage=self.handle)).runs


def wire_step(calls: Calls, execution: int, step: int, name: str, descriptors: StageDescriptors) -> RemoteStage:
    """Make an execution, known by its handle, the stage of a step; ``name`` names the step in messages of errors.

    Raises HalError if the device refuses, TransportError if it cannot be reached, DeadObjectError if it is gone.
    """
    lists = (descriptors.in_bells, descriptors.out_bells, descriptors.start_bells, descriptors.end_bells)
    single = (descriptors.calls, descriptors.answers, descriptors.cancelled)
    numbers = iter(calls.hand_over([*(d for each in lists for d in each), *(d for d in single if d is not None)]))
    in_bells, out_bells, start_bells, end_bells = ([next(numbers) for _ in each] for each in lists)
    first, last, cancelled = (next(numbers) if descriptor is not None else 0 for descriptor in single)
    request = wire.WireStepRequest(
        execution=execution,
        step=step,
        name=name,
        in_bell_descriptor_ids=in_bells,
        out_bell_descriptor_ids=out_bells,
        start_bell_descriptor_ids=start_bells,
        end_bell_descriptor_ids=end_bells,
        calls_descriptor_id=first,
        answers_descriptor_id=last,
        cancelled_descriptor_id=cancelled,
    )
    answer = calls.call(backend_pb2_grpc.BackendServiceStub(calls.rpc).WireStep, request)
    return RemoteStage(calls, require_handle(answer.stage, "stage", calls.place))
