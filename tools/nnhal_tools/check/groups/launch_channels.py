"""Launch channels: reusable executions launched with one datagram each way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import Fence, create_fence
from nnhal.types import ErrorStatus
from nnhal.v1 import execution_pb2 as wire
from nnhal.v1 import fenced_execution_callback_pb2
from nnhal_tools.check.check import FAILURE, INVALID, CheckFailedError, check, offered, refused, require
from nnhal_tools.check.checked_device import BROKEN, Bound, CheckedDevice, require_numbered, settled
from nnhal_tools.check.session import CheckSession, Datagrams

GROUP = "launch-channels"
_PAGE, _LIMITS = "link.md#channels", "link.md#limits"
_MOST_FENCES = 16


class _Launches:
    """A launch channel."""

    def __init__(self, session: CheckSession) -> None:
        """Open it. Raises NotOfferedError if the device has none."""
        answer = offered(
            lambda: session.call(session.execution.OpenLaunchChannel, wire.OpenLaunchChannelRequest()),
            "steps are not chained by fences, and run in turn",
        )
        self.session = session
        self.channel: Datagrams = session.take_socket(answer.channel_descriptor_id, "the launch channel")

    def exchange(self, descriptors: Sequence[int] = (), **call: Any) -> tuple[wire.LaunchAnswer, list[Descriptor]]:
        """Make a call. Raises HalError if it is refused."""
        message, received = self.channel.answer(wire.LaunchCall(**call).SerializeToString(), descriptors)
        try:
            answer = wire.LaunchAnswer.FromString(message)
        except DecodeError:
            raise CheckFailedError(f"{len(message)} bytes on the launch channel, expected a LaunchAnswer") from None
        if answer.WhichOneof("answer") == "refused":
            require(answer.refused.status != 0, "a refusal with NONE", "another status")
            raise HalError(ErrorStatus(answer.refused.status), answer.refused.message)
        return answer, received

    def launch(self, execution: int, wait_for: Sequence[Fence] = (), **fields: Any) -> Fence | None:
        """Launch an execution, and return its fence."""
        launch = wire.Launch(execution=execution, **{"deadline_ns": -1, "duration_ns": -1, **fields})
        answer, received = self.exchange([fence.fileno() for fence in wait_for], launch=launch)
        require(answer.WhichOneof("answer") == "launch", f"{answer}", "LaunchDone")
        require(len(received) <= 1, f"{len(received)} descriptors with LaunchDone", "one fence at most")
        return Fence.received(received[0]) if received else None

    def info(self, execution: int) -> fenced_execution_callback_pb2.GetExecutionInfoResponse:
        """Ask how the last launch of an execution ended."""
        return self.exchange(info=wire.LaunchInfo(execution=execution))[0].info

    def end(self, fence: Fence | None) -> None:
        """Wait for a fence that must signal."""
        if fence is not None:
            require(settled(fence, self.session.seconds), "a fence in error", "its signal")

    def require_refusal_and_end(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Check that a datagram is answered with LaunchRefused, after which the channel ends."""
        answer = wire.LaunchAnswer.FromString(self.channel.answer(message, descriptors).message)
        require(
            ErrorStatus(answer.refused.status) == INVALID and bool(answer.refused.message),
            " ".join(str(answer).split()),
            "LaunchRefused with INVALID_ARGUMENT and the reason",
        )
        self.channel.require_end()


def _open(device: CheckedDevice) -> tuple[_Launches, Bound, Any]:
    held = device.prepare()
    work = held.work()
    return _Launches(held.session), held.bind(work.request), work


@check(GROUP, _PAGE, "RE-02", "RE-05", "FC-01")
def launch(device: CheckedDevice) -> None:
    """A launch is answered once, with its fence; afterwards LaunchInfo says NONE and the output is written."""
    launches, bound, work = _open(device)
    for seed in range(3):
        work.fill(seed)
        launches.end(launches.launch(bound.handle))
        info = launches.info(bound.handle)
        require(info.error_status == 0, info.message, "NONE")
        work.require_output()
    launches.channel.require_quiet()


@check(GROUP, _LIMITS, "FC-02", "FC-09")
def waiting(device: CheckedDevice) -> None:
    """A launch waits for up to 16 fences; until it has ended LaunchInfo is GENERAL_FAILURE."""
    launches, bound, work = _open(device)
    signal, pending = create_fence()
    work.fill()
    fence = launches.launch(bound.handle, [Fence(pending.descriptor.duplicate()) for _ in range(_MOST_FENCES)])
    require(fence is not None, "no fence of a launch that waits", "a fence")
    refused(lambda: launches.info(bound.handle), FAILURE, what="a launch that waits")
    require(work.is_untouched, "an output before the fence has signalled", "nothing written")
    signal.send()
    launches.end(fence)
    work.require_output()


@check(GROUP, "messages.md#fences", "FC-03", "FC-04")
def errors_of_fences(device: CheckedDevice) -> None:
    """A fence in error is INVALID_ARGUMENT; one that fails later puts the launch's own fence into error."""
    launches, bound, work = _open(device)
    signal, failed = create_fence()
    signal.fail()
    refused(lambda: launches.launch(bound.handle, [failed]), INVALID, what="a fence in error")
    signal, pending = create_fence()
    work.fill()
    fence = launches.launch(bound.handle, [pending])
    signal.fail()
    assert fence is not None
    require(not settled(fence, device.seconds), "a signal", "a fence in error")
    require(ErrorStatus(launches.info(bound.handle).error_status) == FAILURE, "another status", "GENERAL_FAILURE")
    require(work.is_untouched, "an output", "nothing written")


@check(GROUP, _PAGE, "VR-05", "RQ-13", "FC-05")
def refusals(device: CheckedDevice) -> None:
    """Unknown executions, descriptors that are no fences and numbers below -1 are refused; the channel goes on."""
    launches, bound, work = _open(device)
    memory = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))
    as_fence = wire.Launch(execution=bound.handle, deadline_ns=-1, duration_ns=-1)
    refused(lambda: launches.launch(2**62), INVALID, what="an execution that does not exist")
    refused(lambda: launches.info(2**62), INVALID, what="the info of an execution that does not exist")
    refused(lambda: launches.exchange([memory.fileno()], launch=as_fence), INVALID, what="memory as a fence")
    refused(lambda: launches.launch(bound.handle, deadline_ns=-2), INVALID, what="deadline -2")
    refused(lambda: launches.launch(bound.handle, duration_ns=-2), INVALID, what="duration -2")
    refused(lambda: launches.info(bound.handle), FAILURE, what="the info of what was not launched")
    work.run(lambda: launches.end(launches.launch(bound.handle)))


@check(GROUP, _PAGE)
def malformed(device: CheckedDevice) -> None:
    """A datagram that is no call, or has more than 16 descriptors, is answered with LaunchRefused and ends it."""
    launches, bound, work = _open(device)
    for message in BROKEN.values():
        _Launches(launches.session).require_refusal_and_end(message)
    memory = Descriptor(os.memfd_create("nnhal-check", os.MFD_CLOEXEC))
    many = [memory.fileno()] * (_MOST_FENCES + 1)
    message = wire.LaunchCall(launch=wire.Launch(execution=bound.handle)).SerializeToString()
    _Launches(launches.session).require_refusal_and_end(message, many)
    work.run(lambda: launches.end(launches.launch(bound.handle)))


@check(GROUP, _PAGE)
def sync(device: CheckedDevice) -> None:
    """Enqueued work is visible when the fence of a later Sync has signalled."""
    launches, bound, work = _open(device)

    def enqueue() -> None:
        launches.end(launches.launch(bound.handle, enqueue=True))
        _, received = launches.exchange(sync=wire.Sync())
        launches.end(Fence.received(received[0]) if received else None)

    work.run(enqueue)


@check(GROUP, _PAGE)
def closed_channel(device: CheckedDevice) -> None:
    """After the channel is closed, executions that were launched go on until they end."""
    launches, bound, work = _open(device)
    signal, pending = create_fence()
    work.fill()
    fence = launches.launch(bound.handle, [pending])
    launches.channel.close()
    signal.send()
    launches.end(fence)
    work.require_output()


@check(GROUP, "link.md#when-a-session-ends")
def end_of_session(device: CheckedDevice) -> None:
    """The channel closes when the link does, and fences of launches that wait are in error."""
    launches, bound, _ = _open(device)
    _, pending = create_fence()
    fence = launches.launch(bound.handle, [pending])
    launches.session.link.close()
    launches.channel.require_end()
    assert fence is not None
    require(not settled(fence, device.seconds), "a signal", "a fence in error")


@check(GROUP, _LIMITS)
def leaks(device: CheckedDevice) -> None:
    """Launches that have ended leave no descriptor in the device's process."""
    launches, bound, _ = _open(device)

    def round_() -> None:
        signal, pending = create_fence()
        fence = launches.launch(bound.handle, [pending])
        signal.send()
        launches.end(fence)

    device.require_no_growth(12, round_, 4)


@check(GROUP, _PAGE)
def numbers(device: CheckedDevice) -> None:
    """If the session has agreed on it, the answer has the number of its call, also if the call is refused."""
    launches, bound, _ = _open(device)
    asked = [wire.LaunchCall(info=wire.LaunchInfo(execution=handle)) for handle in (bound.handle, 2**62)]
    require_numbered(launches.session, launches.channel, *(call.SerializeToString() for call in asked))
