"""The device that is asked: facts that rules know of it, and calls that they share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.types import Model, Request
from nnhal.v1 import (
    backend_pb2,
    device_pb2,
    execution_pb2,
    request_pb2,
)
from nnhal.v1 import prepared_model_pb2 as prepared_pb2
from nnhal_conformance.channels import BurstChannel, Launch, split
from nnhal_conformance.rule import BrokenRuleError, NotOfferedError, UnservedMethodError, offered, require
from nnhal_conformance.session import DeviceSession, RawLink
from nnhal_conformance.small_models import SmallModel, SmallRequest, small_models

NO_MODEL = "no small model is supported: nothing can be executed"
_NO_LAUNCHES = "the framework launches on launch channels only"
_TICK_SECONDS = 0.02


class Known:
    """Facts of a device that stay the same, and are asked for once."""

    def __init__(self) -> None:
        self.support: dict[str, bool] | None = None
        self.description: backend_pb2.DescribeResponse | None = None
        self.is_described = True


class Subject(Closing):
    """A device while it is asked about one rule. Sessions that the rule opens are closed with it."""

    def __init__(self, endpoint: Endpoint, seconds: float, known: Known) -> None:
        """``seconds`` is how long each answer may take."""
        self.endpoint, self.seconds, self._known = endpoint, seconds, known
        self._opened = ExitStack()

    def session(self) -> DeviceSession:
        """Open a session."""
        return self._opened.enter_context(DeviceSession(self.endpoint, self.seconds))

    def raw_link(self, hello: bool = True) -> RawLink:
        """Open a link on which anything can be sent."""
        return self._opened.enter_context(RawLink(self.endpoint, self.seconds, hello))

    def prepare(self, model: Model | None = None, session: DeviceSession | None = None) -> Prepared:
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
            with DeviceSession(self.endpoint, self.seconds) as session:
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
            with DeviceSession(self.endpoint, self.seconds) as session:
                try:
                    self._known.description = session.call(session.backend.Describe, backend_pb2.DescribeRequest())
                except UnservedMethodError:
                    self._known.is_described = False
        return self._known.description

    def until(self, condition: Callable[[], object], expected: Callable[[], str]) -> None:
        """Wait until a condition holds. Raises BrokenRuleError with what was expected if it does not in time."""
        deadline = time.monotonic() + self.seconds
        while not condition():
            if time.monotonic() > deadline:
                raise BrokenRuleError(expected())
            time.sleep(_TICK_SECONDS)

    def require_alive(self) -> None:
        """Check that the device serves other clients as before."""
        with DeviceSession(self.endpoint, self.seconds) as session:
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
        with DeviceSession(self.endpoint, self.seconds) as session:
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


def supported(session: DeviceSession, model: Model) -> Sequence[bool]:
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

    def __init__(self, session: DeviceSession, small: SmallModel, handle: int) -> None:
        require(handle > 0, f"prepared model {handle}", "a handle above 0")
        self.session, self.small, self.handle = session, small, handle

    def work(self, **kinds: Any) -> SmallRequest:
        """Make a request in memory of its own."""
        return SmallRequest(self.small, **kinds)

    def execute(self, request: Request | request_pb2.Request, **fields: Any) -> request_pb2.ExecutionResult:
        """Execute a request over gRPC, or in a burst if that is not served.

        ``fields`` are those of the call, or of its config.
        """
        message = prepared_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
            prepared_model=self.handle, request=self.encoded(request), **split(fields)
        )
        try:
            return self.session.call(self.session.prepared_model.ExecuteSynchronouslyWithConfig, message).result
        except UnservedMethodError as error:
            return self.burst_instead(error).execute(request, **fields).result

    def burst_instead(self, unserved: UnservedMethodError) -> BurstChannel:
        """A burst in place of a method that is not served. Raises that error if there are no bursts either."""
        try:
            return self.burst()
        except NotOfferedError:
            raise unserved from None

    def bind(self, request: Request | request_pb2.Request, **config: Any) -> Bound:
        """Create a reusable execution."""
        return self.bind_with(request, request_pb2.ExecutionConfig(**config))

    def bind_with(self, request: Request | request_pb2.Request, config: request_pb2.ExecutionConfig) -> Bound:
        """Create a reusable execution with a config."""
        message = prepared_pb2.CreateReusableExecutionRequest(
            prepared_model=self.handle, request=self.encoded(request), config=config
        )
        answer = self.session.call(self.session.prepared_model.CreateReusableExecution, message)
        return Bound(self, answer.execution)

    def launch(
        self, request: Request | request_pb2.Request, wait_for: Sequence[Descriptor] = (), **fields: Any
    ) -> Launch:
        """Launch a request over gRPC. Raises NotOfferedError if the device has no such launches."""
        return self.launch_after(request, [self.session.link.issue(each) for each in wait_for], **fields)

    def launch_after(self, request: Request | request_pb2.Request, numbers: Sequence[int], **fields: Any) -> Launch:
        """Launch a request that waits for the fences of some ids on the link."""
        message = prepared_pb2.PreparedModelServiceExecuteFencedWithConfigRequest(
            prepared_model=self.handle,
            request=self.encoded(request),
            wait_for_descriptor_ids=numbers,
            **split(fields),
        )
        answer = offered(
            lambda: self.session.call(self.session.prepared_model.ExecuteFencedWithConfig, message), _NO_LAUNCHES
        )
        return Launch.of(self.session, answer.result)

    def burst(self) -> BurstChannel:
        """Configure a burst and take its channel."""
        message = prepared_pb2.ConfigureExecutionBurstRequest(prepared_model=self.handle)
        stub = self.session.prepared_model
        answer = offered(
            lambda: self.session.call(stub.ConfigureExecutionBurst, message), "each run is a call over gRPC"
        )
        require(answer.burst > 0, f"burst {answer.burst}", "a handle above 0")
        channel = self.session.take_socket(answer.channel_descriptor_id, "the burst's channel")
        return BurstChannel(self.session, channel, answer.burst)

    def release(self) -> None:
        message = prepared_pb2.PreparedModelServiceReleaseRequest(prepared_model=self.handle)
        self.session.call(self.session.prepared_model.Release, message)

    def encoded(self, request: Request | request_pb2.Request) -> request_pb2.Request:
        """Encode a request, if it is not."""
        return self.session.request(request) if isinstance(request, Request) else request


class Bound:
    """A reusable execution."""

    def __init__(self, held: Prepared, handle: int) -> None:
        require(handle > 0, f"execution {handle}", "a handle above 0")
        self.session, self.handle, self._held = held.session, handle, held
        self._burst: BurstChannel | None = None

    def run(self, **fields: Any) -> request_pb2.ExecutionResult:
        """Run it over gRPC, or in a burst if that is not served."""
        message = execution_pb2.ExecutionServiceExecuteSynchronouslyRequest(execution=self.handle, **fields)
        try:
            return self.session.call(self.session.execution.ExecuteSynchronously, message).result
        except UnservedMethodError as error:
            self._burst = self._burst or self._held.burst_instead(error)
            return self._burst.run(self, **fields).result

    def launch(self, wait_for: Sequence[Descriptor] = (), **fields: Any) -> Launch:
        """Launch it over gRPC."""
        message = execution_pb2.ExecutionServiceExecuteFencedRequest(
            execution=self.handle,
            wait_for_descriptor_ids=[self.session.link.issue(each) for each in wait_for],
            **fields,
        )
        answer = offered(lambda: self.session.call(self.session.execution.ExecuteFenced, message), _NO_LAUNCHES)
        return Launch.of(self.session, answer.result)

    def run_channel(self) -> BurstChannel:
        """Open a run channel. Raises NotOfferedError if the device has none."""
        message = execution_pb2.OpenRunChannelRequest(execution=self.handle)
        answer = offered(
            lambda: self.session.call(self.session.execution.OpenRunChannel, message),
            "runs go through the framework",
        )
        return BurstChannel(self.session, self.session.take_socket(answer.channel_descriptor_id, "the run channel"))

    def release(self) -> None:
        message = execution_pb2.ExecutionServiceReleaseRequest(execution=self.handle)
        self.session.call(self.session.execution.Release, message)
