"""Channels of a device, and launches: what rules send on them, and what must come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError
from nnhal.link.numbers import NUMBERED_ANSWERS, number_field, number_of
from nnhal.types import ErrorStatus, Request
from nnhal.v1 import burst_pb2, execution_pb2, fenced_execution_callback_pb2, request_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.rule import BrokenRuleError, NotOfferedError, offered, require
from nnhal_conformance.session import Datagrams, DeviceSession

if TYPE_CHECKING:
    from nnhal_conformance.device import Bound

Info = fenced_execution_callback_pb2.GetExecutionInfoResponse


@dataclass(frozen=True, slots=True)
class Launch:
    """A fenced execution that was launched."""

    session: DeviceSession
    fence: Fence | None
    """Its fence; None if it has ended already."""
    info: Callable[[], Info]
    """Asks how it ended."""
    callback: int = 0
    """The handle of its callback, if it was launched over gRPC."""

    @classmethod
    def of(cls, session: DeviceSession, result: prepared_pb2.FencedExecutionResult) -> Launch:
        """Return the launch that a call over gRPC was answered with."""
        callback, number = result.callback, result.sync_fence_descriptor_id
        require(callback > 0, f"callback {callback}", "a handle above 0")
        message = fenced_execution_callback_pb2.GetExecutionInfoRequest(callback=callback)
        fence = session.take_fence(number) if number else None
        return cls(session, fence, lambda: session.call(session.callback.GetExecutionInfo, message), callback)

    def end(self) -> Info:
        """Wait for its fence, whether that signals or fails, and return how it ended."""
        if self.fence is not None:
            settled(self.fence, self.session.seconds)
        return self.info()

    def require_success(self, what: str = "") -> None:
        """Check that it ends well: its fence signals, if it has one."""
        signalled = self.fence is None or settled(self.fence, self.session.seconds)
        info = self.info()
        require(info.error_status == 0, f"{what}: {info.message}", "NONE")
        require(signalled, f"{what}: a fence in error", "its signal")

    def require_error(self, *statuses: ErrorStatus) -> None:
        """Check that it ends with one of some statuses, and that its fence is in error."""
        signalled = self.fence is not None and settled(self.fence, self.session.seconds)
        require(not signalled, "a signal", "a fence in error")
        status = ErrorStatus(self.info().error_status)
        require(status in statuses, status.name, " or ".join(each.name for each in statuses))


class LaunchChannel:
    """A channel on which executions are launched with one datagram each way."""

    def __init__(self, session: DeviceSession) -> None:
        """Open it. Raises NotOfferedError if the device has none."""
        answer = offered(
            lambda: session.call(session.execution.OpenLaunchChannel, execution_pb2.OpenLaunchChannelRequest()),
            "steps are not chained by fences, and run in turn",
        )
        self.session = session
        self.channel: Datagrams = session.take_socket(answer.channel_descriptor_id, "the launch channel")

    def exchange(
        self, descriptors: Sequence[int] = (), **call: Any
    ) -> tuple[execution_pb2.LaunchAnswer, list[Descriptor]]:
        """Make a call. Raises HalError if it is refused."""
        message, received = self.channel.answer(execution_pb2.LaunchCall(**call).SerializeToString(), descriptors)
        try:
            answer = execution_pb2.LaunchAnswer.FromString(message)
        except DecodeError:
            raise BrokenRuleError(f"{len(message)} bytes on the launch channel, expected a LaunchAnswer") from None
        if answer.WhichOneof("answer") == "refused":
            require(answer.refused.status != 0, "a refusal with NONE", "another status")
            raise HalError(ErrorStatus(answer.refused.status), answer.refused.message)
        return answer, received

    def launch(self, execution: int, wait_for: Sequence[Descriptor] = (), **fields: Any) -> Launch:
        """Launch an execution."""
        launch = execution_pb2.Launch(execution=execution, **{"deadline_ns": -1, "duration_ns": -1, **fields})
        answer, received = self.exchange([each.fileno() for each in wait_for], launch=launch)
        require(answer.WhichOneof("answer") == "launch", f"{answer}", "LaunchDone")
        require(len(received) <= 1, f"{len(received)} descriptors with LaunchDone", "one fence at most")
        return Launch(self.session, Fence.received(received[0]) if received else None, lambda: self.info(execution))

    def info(self, execution: int) -> Info:
        """Ask how the last launch of an execution ended."""
        return self.exchange(info=execution_pb2.LaunchInfo(execution=execution))[0].info

    def require_refusal_and_end(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Check that a datagram is answered with LaunchRefused, after which the channel ends."""
        answer = execution_pb2.LaunchAnswer.FromString(self.channel.answer(message, descriptors).message)
        require(
            ErrorStatus(answer.refused.status) == ErrorStatus.INVALID_ARGUMENT and bool(answer.refused.message),
            " ".join(str(answer).split()),
            "LaunchRefused with INVALID_ARGUMENT and the reason",
        )
        self.channel.require_end()


def settled(fence: Fence, seconds: float) -> bool:
    """Wait for a fence and return whether it has signalled: otherwise it is in error."""
    try:
        fence.wait(seconds)
    except FenceError:
        return False
    except TimeoutError:
        raise BrokenRuleError(f"a fence was pending for {seconds:g} s, expected its signal or its end") from None
    return True


class BurstChannel:
    """The channel of a burst, a run channel, or the caller's end of a wired chain."""

    def __init__(self, session: DeviceSession, channel: Datagrams, handle: int = 0) -> None:
        self.session, self.channel, self.handle = session, channel, handle

    def exchange(self, call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        """Send a call and return the answer. Raises HalError if it is an error."""
        return self.decoded(self.channel.answer(call.SerializeToString()).message)

    def decoded(self, message: bytes) -> burst_pb2.BurstAnswer:
        """Decode an answer. Raises HalError if it is an error, BrokenRuleError if it is none."""
        try:
            answer = burst_pb2.BurstAnswer.FromString(message)
        except DecodeError:
            raise BrokenRuleError(f"{len(message)} bytes on {self.channel.what}, expected a BurstAnswer") from None
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return answer

    def run(self, bound: Bound, **fields: Any) -> burst_pb2.BurstAnswer:
        """Run a reusable execution."""
        return self.answered(self.call_of(bound.handle, **fields))

    def call_of(self, execution: int, **fields: Any) -> burst_pb2.BurstCall:
        """The call that runs an execution."""
        return burst_pb2.BurstCall(run=burst_pb2.BurstRun(execution=execution, **{"deadline_ns": -1, **fields}))

    def execute(
        self, request: Request | request_pb2.Request, tokens: Sequence[int] | None = None, **fields: Any
    ) -> burst_pb2.BurstAnswer:
        """Execute a request, by default without caching its pools."""
        return self.answered(burst_pb2.BurstCall(execute_with_config=self.message(request, tokens, **fields)))

    def message(
        self, request: Request | request_pb2.Request, tokens: Sequence[int] | None = None, **fields: Any
    ) -> burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest:
        """Return the call that executes a request, by default without caching its pools."""
        return burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest(
            request=self.session.request(request) if isinstance(request, Request) else request,
            memory_identifier_tokens=[-1] * len(request.pools) if tokens is None else tokens,
            **split(fields),
        )

    def answered(self, call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        """Make a call that must have a result. Raises HalError."""
        answer = self.exchange(call)
        require(answer.HasField("result"), "status NONE without a result", "a result")
        return answer

    def forget(self, token: int) -> burst_pb2.BurstAnswer:
        """Release cached memory."""
        arguments = burst_pb2.ReleaseMemoryResourceRequest(memory_identifier_token=token)
        return self.exchange(burst_pb2.BurstCall(release_memory_resource=arguments))

    def require_refusal_and_end(self, message: bytes) -> None:
        """Check that a datagram that is no call is answered with INVALID_ARGUMENT, and that the channel ends then."""
        try:
            answer = self.decoded(self.channel.answer(message).message)
        except HalError as error:
            require(
                error.status == ErrorStatus.INVALID_ARGUMENT and bool(error.message),
                str(error),
                "INVALID_ARGUMENT and the reason",
            )
        else:
            raise BrokenRuleError(f"got {answer!s:.200}, expected INVALID_ARGUMENT and the reason")
        self.channel.require_end()


def require_numbered(session: DeviceSession, channel: Datagrams, *calls: bytes) -> None:
    """Check that the answer to a call with a number has that number, and that to one without has none.

    Raises NotOfferedError if the session has not agreed on numbers.
    """
    if NUMBERED_ANSWERS not in session.link.welcome.capabilities:
        raise NotOfferedError(
            "Welcome does not name LINK_CAPABILITY_NUMBERED_ANSWERS: of answers that come late or twice only those are "
            "noticed that have come before the next call"
        )
    for call in calls:
        for number in (7, None, 2**64 - 1, 0, 8):
            got = number_of(channel.answer(call + (b"" if number is None else number_field(number))).message)
            require(got == number, f"{_numbered(got)} to a call with {_numbered(number)}", "that of the call")


def _numbered(number: int | None) -> str:
    return "no number" if number is None else f"number {number}"


BROKEN = {
    "garbage": b"\xff" * 64,
    "a call of an unknown kind": b"\xf8\x07\x01",
    "too many bytes": bytes((1 << 16) + 1),
    "an empty datagram": b"",
}
"""Datagrams that end any channel of calls."""


_CONFIG = frozenset(field.name for field in request_pb2.ExecutionConfig.DESCRIPTOR.fields)


def split(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a call, those of its config in one."""
    config = {name: value for name, value in fields.items() if name in _CONFIG}
    rest = {name: value for name, value in fields.items() if name not in _CONFIG}
    return {"deadline_ns": -1, **rest, "config": request_pb2.ExecutionConfig(**config)}
