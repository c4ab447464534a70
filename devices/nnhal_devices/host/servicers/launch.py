"""What the calls that launch fenced executions have in common."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.fence import Fence
from nnhal.v1 import prepared_model_pb2 as wire
from nnhal_devices.host.bound_request import BoundRequest
from nnhal_devices.host.callback import FencedExecution
from nnhal_devices.host.client import Client
from nnhal_devices.host.fenced import Launcher, fences_from, start


def fences_of(client: Client, numbers: Sequence[int]) -> list[Fence]:
    """The fences that a call names. Raises INVALID_ARGUMENT."""
    return fences_from([client.descriptors.get(number) for number in numbers])


def launch(
    launcher: Launcher,
    client: Client,
    bound: BoundRequest,
    fences: Sequence[Fence],
    deadline_ns: int,
    duration_ns: int,
) -> wire.FencedExecutionResult:
    """Launch an execution and answer with its callback and its fence. Raises HalError."""

    def answer(execution: FencedExecution, fence: Fence | None) -> wire.FencedExecutionResult:
        callback = client.add(execution)
        try:
            number = client.descriptors.offer(fence.descriptor) if fence else 0
        except HalError:
            client.release(callback)
            raise
        return wire.FencedExecutionResult(callback=callback, sync_fence_descriptor_id=number)

    answered, launched = launcher.launch(bound, fences, deadline_ns, duration_ns, client, answer)
    if launched is not None:
        start(launched)
    return answered
