"""The device that is asked: what checks know of it, and what they have in common when they ask it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import Fence, FenceError
from nnhal.link.numbers import NUMBERED_ANSWERS, number_field, number_of
from nnhal.types import ErrorStatus, Model, Request
from nnhal.v1 import (
    backend_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    request_pb2,
)
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_tools.check.check import CheckFailedError, NotOfferedError, UnservedMethodError, offered, require
from nnhal_tools.check.session import CheckSession, Datagrams, RawLink
from nnhal_tools.check.small_models import CheckedRequest, SmallModel, small_models

NO_MODEL = "no small model is supported: nothing can be executed"
_NO_LAUNCHES = "the framework launches on launch channels only"
_TICK_SECONDS = 0.02


class Known:
    """Facts of a device that stay the same, and are asked for once."""

    def __init__(self) -> None:
        self.support: dict[str, bool] | None = None
        self.description: backend_pb2.DescribeResponse | None = None
        self.is_described = True


class CheckedDevice(Closing):
    """A device during one check. Sessions that the check opens are closed with it."""

    def __init__(self, endpoint: Endpoint, seconds: float, known: Known) -> None:
        """``seconds`` is how long each answer may take."""
        self.endpoint, self.seconds, self._known = endpoint, seconds, known
        self._opened = ExitStack()

    def session(self) -> CheckSession:
        """Open a session."""
        return self._opened.enter_context(CheckSession(self.endpoint, self.seconds))

    def raw_link(self, hello: bool = True) -> RawLink:
        """Open a link on which anything can be sent."""
        return self._opened.enter_context(RawLink(self.endpoint, self.seconds, hello))

    def prepare(self, model: Model | None = None, session: CheckSession | None = None) -> Prepared:
        """Prepare a model, or the small one, in a session of its own or in a given one."""
        session = session or self.session()
        small = self.small
        return Prepared(session, small, session.prepare(small.model if model is None else model))

    def prepare_if_supported(self, model: Model, what: str) -> Prepared:
        """Prepare another form of the small model. Raises NotOfferedError if the device does not support it."""
        session = self.session()
        if not all(supported(session, model)):
            raise NotOfferedError(f"{what} is not supported: other devices get such models")
        return self.prepare(model, session)

    @property
    def support(self) -> dict[str, bool]:
        """Small models that the device supports, by their names."""
        if self._known.support is None:
            with CheckSession(self.endpoint, self.seconds) as session:
                self._known.support = {each.name: all(supported(session, each.model)) for each in small_models()}
        return self._known.support

    @property
    def small(self) -> SmallModel:
        """The first small model that the device supports. Raises NotOfferedError if there is none."""
        support = self.support
        for each in small_models():
            if support[each.name]:
                return each
        raise NotOfferedError(NO_MODEL)

    @property
    def description(self) -> backend_pb2.DescribeResponse | None:
        """Answer to Describe; None if that is not served."""
        if self._known.description is None and self._known.is_described:
            with CheckSession(self.endpoint, self.seconds) as session:
                try:
                    self._known.description = session.call(session.backend.Describe, backend_pb2.DescribeRequest())
                except UnservedMethodError:
                    self._known.is_described = False
        return self._known.description

    def until(self, condition: Callable[[], object], expected: Callable[[], str]) -> None:
        """Wait until a condition holds. Raises CheckFailedError with what was expected if it does not in time."""
        deadline = time.monotonic() + self.seconds
        while not condition():
            if time.monotonic() > deadline:
                raise CheckFailedError(expected())
            time.sleep(_TICK_SECONDS)

    def require_alive(self) -> None:
        """Check that the device serves other clients as before."""
        with CheckSession(self.endpoint, self.seconds) as session:
            answer = session.call(session.device.GetVersionString, device_pb2.GetVersionStringRequest())
            require(bool(answer.version), "an empty version", "the version, as before")

    def resources(self, pid: int) -> Counter[str]:
        """Resources that the device's process holds: descriptors by their kind, and mappings of memory.

        Raises NotOfferedError if ``/proc`` does not show it.
        """
        process, held = Path("/proc") / str(pid), Counter[str]()
        try:
            for entry in (process / "fd").iterdir():
                try:
                    held[f"{str(entry.readlink()).partition(':')[0].partition(' ')[0]:.40}"] += 1
                except FileNotFoundError:  # closed in the meantime
                    continue
            maps = (process / "maps").read_text()
        except OSError as error:
            raise NotOfferedError(
                f"/proc does not show the descriptors of process {pid} ({error.strerror}): leaks are not seen"
            ) from error
        held["mappings of memory"] = maps.count("/memfd:")
        return held

    def require_no_growth(self, rounds: int, round_: Callable[[], object], spare: int) -> None:
        """Check that what the process holds does not grow with the rounds of something.

        ``spare`` is how much more there may be afterwards, which is to be less than the number of rounds.
        """
        with CheckSession(self.endpoint, self.seconds) as session:
            pid = session.link.peer_pid
            for _ in range(2):
                round_()
            before = self.resources(pid)
            for _ in range(rounds):
                round_()

            def grown() -> dict[str, int]:
                return {k: n - before[k] for k, n in self.resources(pid).items() if n - before[k] > spare}

            self.until(
                lambda: not grown(),
                lambda: (
                    f"got {', '.join(f'{n} more of {k!r}' for k, n in grown().items())} in process {pid} after "
                    f"{rounds} rounds, expected no growth"
                ),
            )

    def close(self) -> None:
        self._opened.close()


def supported(session: CheckSession, model: Model) -> Sequence[bool]:
    """Ask which operations of a model are supported."""
    message = device_pb2.GetSupportedOperationsRequest(model=session.model(model))
    answer = list(session.call(session.device.GetSupportedOperations, message).supported)
    count = len(model.main.operations)
    require(
        len(answer) == count, f"{len(answer)} answers of GetSupportedOperations", f"{count}, one for each operation"
    )
    return answer


class Prepared:
    """A prepared small model, and every way to execute it."""

    def __init__(self, session: CheckSession, small: SmallModel, handle: int) -> None:
        require(handle > 0, f"prepared model {handle}", "a handle above 0")
        self.session, self.small, self.handle = session, small, handle

    def work(self, **kinds: Any) -> CheckedRequest:
        """Make a request in memory of its own."""
        return CheckedRequest(self.small, **kinds)

    def execute(self, request: Request | request_pb2.Request, **fields: Any) -> request_pb2.ExecutionResult:
        """Execute a request over gRPC, or in a burst if that is not served.

        ``fields`` are those of the call, or of its config.
        """
        message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
            prepared_model=self.handle, request=self._encoded(request), **_split(fields)
        )
        try:
            return self.session.call(self.session.prepared_model.ExecuteSynchronouslyWithConfig, message).result
        except UnservedMethodError as error:
            return self.burst_instead(error).execute(request, **fields).result

    def burst_instead(self, unserved: UnservedMethodError) -> AskedChannel:
        """A burst in place of a method that is not served. Raises that error if there are no bursts either."""
        try:
            return self.burst()
        except NotOfferedError:
            raise unserved from None

    def bind(self, request: Request | request_pb2.Request, **config: Any) -> Bound:
        """Create a reusable execution."""
        message = prepared_pb2.CreateReusableExecutionRequest(
            prepared_model=self.handle, request=self._encoded(request), config=_config(config)
        )
        answer = self.session.call(self.session.prepared_model.CreateReusableExecution, message)
        return Bound(self, answer.execution)

    def launch(
        self, request: Request | request_pb2.Request, wait_for: Sequence[Descriptor] = (), **fields: Any
    ) -> CheckedLaunch:
        """Launch a request over gRPC. Raises NotOfferedError if the device has no such launches."""
        return self.launch_after(request, [self.session.link.issue(each) for each in wait_for], **fields)

    def launch_after(
        self, request: Request | request_pb2.Request, numbers: Sequence[int], **fields: Any
    ) -> CheckedLaunch:
        """Launch a request that waits for the fences of some ids on the link."""
        message = prepared_pb2.PreparedModelServiceExecuteFencedWithConfigRequest(
            prepared_model=self.handle,
            request=self._encoded(request),
            wait_for_descriptor_ids=numbers,
            **_split(fields),
        )
        answer = offered(
            lambda: self.session.call(self.session.prepared_model.ExecuteFencedWithConfig, message), _NO_LAUNCHES
        )
        return CheckedLaunch(self.session, answer.result)

    def burst(self) -> AskedChannel:
        """Configure a burst and take its channel."""
        message = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=self.handle)
        stub = self.session.prepared_model
        answer = offered(
            lambda: self.session.call(stub.ConfigureExecutionBurst, message), "each run is a call over gRPC"
        )
        require(answer.burst > 0, f"burst {answer.burst}", "a handle above 0")
        channel = self.session.take_socket(answer.channel_descriptor_id, "the burst's channel")
        return AskedChannel(self.session, channel, answer.burst)

    def release(self) -> None:
        message = prepared_pb2.PreparedModelServiceReleaseRequest(prepared_model=self.handle)
        self.session.call(self.session.prepared_model.Release, message)

    def _encoded(self, request: Request | request_pb2.Request) -> request_pb2.Request:
        return self.session.request(request) if isinstance(request, Request) else request


class Bound:
    """A reusable execution."""

    def __init__(self, held: Prepared, handle: int) -> None:
        require(handle > 0, f"execution {handle}", "a handle above 0")
        self.session, self.handle, self._held = held.session, handle, held
        self._burst: AskedChannel | None = None

    def run(self, **fields: Any) -> request_pb2.ExecutionResult:
        """Run it over gRPC, or in a burst if that is not served."""
        message = execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(execution=self.handle, **fields)
        try:
            return self.session.call(self.session.execution.ExecuteSynchronously, message).result
        except UnservedMethodError as error:
            self._burst = self._burst or self._held.burst_instead(error)
            return self._burst.run(self, **fields).result

    def launch(self, wait_for: Sequence[Descriptor] = (), **fields: Any) -> CheckedLaunch:
        """Launch it over gRPC."""
        message = execution_pb2.ExecutionServiceExecuteFencedRequest(
            execution=self.handle,
            wait_for_descriptor_ids=[self.session.link.issue(each) for each in wait_for],
            **fields,
        )
        answer = offered(lambda: self.session.call(self.session.execution.ExecuteFenced, message), _NO_LAUNCHES)
        return CheckedLaunch(self.session, answer.result)

    def run_channel(self) -> AskedChannel:
        """Open a run channel. Raises NotOfferedError if the device has none."""
        message = execution_pb2.OpenRunChannelRequest(execution=self.handle)
        answer = offered(
            lambda: self.session.call(self.session.execution.OpenRunChannel, message),
            "runs go through the framework",
        )
        return AskedChannel(self.session, self.session.take_socket(answer.channel_descriptor_id, "the run channel"))

    def release(self) -> None:
        message = execution_pb2.ExecutionServiceReleaseRequest(execution=self.handle)
        self.session.call(self.session.execution.Release, message)


class CheckedLaunch:
    """A fenced execution that was launched over gRPC."""

    def __init__(self, session: CheckSession, result: prepared_pb2.FencedExecutionResult) -> None:
        self.session, self.callback = session, result.callback
        require(self.callback > 0, f"callback {self.callback}", "a handle above 0")
        number = result.sync_fence_descriptor_id
        self.fence = session.take_fence(number) if number else None

    def info(self) -> fenced_execution_callback_pb2.GetExecutionInfoResponse:
        """Ask how it ended."""
        message = fenced_execution_callback_pb2.GetExecutionInfoRequest(callback=self.callback)
        return self.session.call(self.session.callback.GetExecutionInfo, message)

    def end(self) -> fenced_execution_callback_pb2.GetExecutionInfoResponse:
        """Wait for its fence, whether that signals or fails, and return how it ended."""
        if self.fence is not None:
            settled(self.fence, self.session.seconds)
        return self.info()


def settled(fence: Fence, seconds: float) -> bool:
    """Wait for a fence and return whether it has signalled: otherwise it is in error."""
    try:
        fence.wait(seconds)
    except FenceError:
        return False
    except TimeoutError:
        raise CheckFailedError(f"a fence was pending for {seconds:g} s, expected its signal or its end") from None
    return True


class AskedChannel:
    """The channel of a burst, a run channel, or the caller's end of a wired chain."""

    def __init__(self, session: CheckSession, channel: Datagrams, handle: int = 0) -> None:
        self.session, self.channel, self.handle = session, channel, handle

    def exchange(self, call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        """Send a call and return the answer. Raises HalError if it is an error."""
        return self.decoded(self.channel.answer(call.SerializeToString()).message)

    def decoded(self, message: bytes) -> burst_pb2.BurstAnswer:
        """Decode an answer. Raises HalError if it is an error, CheckFailedError if it is none."""
        try:
            answer = burst_pb2.BurstAnswer.FromString(message)
        except DecodeError:
            raise CheckFailedError(f"{len(message)} bytes on {self.channel.what}, expected a BurstAnswer") from None
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return answer

    def run(self, bound: Bound, **fields: Any) -> burst_pb2.BurstAnswer:
        """Run a reusable execution."""
        answer = self.exchange(self.call_of(bound.handle, **fields))
        require(answer.HasField("result"), "status NONE without a result", "a result")
        return answer

    def call_of(self, execution: int, **fields: Any) -> burst_pb2.BurstCall:
        """The call that runs an execution."""
        return burst_pb2.BurstCall(run=burst_pb2.BurstRun(execution=execution, **{"deadline_ns": -1, **fields}))

    def execute(
        self, request: Request | request_pb2.Request, tokens: Sequence[int] | None = None, **fields: Any
    ) -> burst_pb2.BurstAnswer:
        """Execute a request, by default without caching its pools."""
        arguments = burst_pb2.BurstServiceExecuteSynchronouslyWithConfigRequest(
            request=self.session.request(request) if isinstance(request, Request) else request,
            memory_identifier_tokens=[-1] * len(request.pools) if tokens is None else tokens,
            **_split(fields),
        )
        answer = self.exchange(burst_pb2.BurstCall(execute_with_config=arguments))
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
            raise CheckFailedError(f"got {answer!s:.200}, expected INVALID_ARGUMENT and the reason")
        self.channel.require_end()


def require_numbered(session: CheckSession, channel: Datagrams, *calls: bytes) -> None:
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


def _config(fields: dict[str, Any]) -> request_pb2.ExecutionConfig:
    return request_pb2.ExecutionConfig(**fields)


def _split(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a call, those of its config in one."""
    config = {name: value for name, value in fields.items() if name in _CONFIG}
    rest = {name: value for name, value in fields.items() if name not in _CONFIG}
    return {"deadline_ns": -1, **rest, "config": _config(config)}
