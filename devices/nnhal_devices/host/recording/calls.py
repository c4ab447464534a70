"""The interceptor of a device's calls over gRPC: it keeps what a call asks and how it is answered, and records that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import grpc

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec import nanoseconds
from nnhal.device_calls import EXECUTE
from nnhal.errors import HalError
from nnhal.recording import recorded_model, refused_model
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import device_pb2
from nnhal.v1 import recording_pb2 as wire
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.recording.active import ActiveRecording, Events, deadline_in_ns
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.wrapped_servicer import Method


@dataclass(slots=True)
class InterceptedCall:
    """One call, from its arrival until it is answered or has failed."""

    title: str
    """Its name in recordings, such as ``Device.Allocate``."""
    client: ClientSession | None
    """None for a call that needs no session, or is refused."""
    request: Any
    started_ns: int
    target: object | None = None
    """The object that it is about, which a release takes from the session."""
    answer: Any = None
    error: HalError | None = None
    is_noted: bool = False
    """True if the recording has it by other means: as a request that it has bound, or as an execution."""

    @property
    def session(self) -> ClientSession:
        """The session of a call that has one."""
        assert self.client is not None
        return self.client


SERVED: ContextVar[InterceptedCall | None] = ContextVar("served", default=None)
"""The call that this thread serves, while a recording is made."""
Fill = Callable[[wire.RecordedEvent], Events]
"""Has an event tell what a call was about, and returns the events that come before it."""


class RecordedCalls:
    """Records the calls that servicers serve, while a recording is made."""

    def __init__(self, active: Callable[[], ActiveRecording | None], clients: ClientSessions) -> None:
        """``active`` returns the recording that is being made."""
        self._active = active
        self._clients = clients

    def _call(self, title: str, request: Any, context: grpc.ServicerContext) -> InterceptedCall:
        """A call that begins now."""
        client: ClientSession | None = None
        with suppress(HalError):
            client = self._clients.of(context)
        call = InterceptedCall(title, client, request, now_ns())
        handles = (getattr(request, field, None) for field in ("prepared_model", "buffer", "execution"))
        handle = next((each for each in handles if isinstance(each, int) and each), None)
        if client is not None and handle is not None:
            call.target = client.find(handle, object)
        return call

    def unary(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Any:
        """Serve a call with one answer."""
        active = self._active()
        if active is None:
            return method(request, context)
        call = self._call(title, request, context)
        SERVED.set(call)
        try:
            call.answer = method(request, cast(grpc.ServicerContext, _WatchedContext(context, call)))
        except BaseException:
            if not call.is_noted:
                _tell(active, call)
            raise
        finally:
            SERVED.set(None)
        if not call.is_noted and title not in EXECUTE:
            _tell(active, call)
        return call.answer

    def stream(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Serve a preparation, whose end is recorded before its client hears of it."""
        active = self._active()
        if active is None:
            yield from method(request, context)
            return
        call = self._call(title, request, context)
        for answer in method(request, context):
            event = answer.preparation
            if event.WhichOneof("event") == "notified":
                call.answer = ended = event.notified
                call.error = HalError(ErrorStatus(ended.status), ended.message) if ended.status else None
                _tell(active, call)
            yield answer


class _WatchedContext:
    """The context of a call, which keeps the error that ends it."""

    def __init__(self, context: grpc.ServicerContext, call: InterceptedCall) -> None:
        self._context, self._call = context, call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def abort_with_status(self, status: Any) -> None:
        """End the call."""
        error = getattr(status, "error", None)
        if error is not None:
            self._call.error = HalError(error.status, error.message)  # without its frames
        self._context.abort_with_status(status)


def _tell(active: ActiveRecording, call: InterceptedCall) -> None:
    """Note a call that has been answered, or has failed with an error. Whatever goes wrong here ends the recording."""
    try:
        ended_ns = now_ns()
        about = _ABOUT.get(call.title)
        fill = about(active, call) if about is not None and call.client is not None else None
    except Exception as problem:
        active.give_up(problem)
        return

    def events() -> Events:
        event = active.event(call.title, call.client, call.started_ns, ended_ns)
        if call.error is not None:
            active.fail(event, call.error)
        return [*(fill(event) if fill is not None else ()), event]

    active.notes.add(events)


def _preparation(active: ActiveRecording, call: InterceptedCall) -> Fill:
    """A preparation; its model is written now, since its constants may be many."""
    request = call.request
    config = request.config if isinstance(request, device_pb2.PrepareModelWithConfigRequest) else request
    about = wire.RecordedPreparation(is_from_cache=isinstance(request, device_pb2.PrepareModelFromCacheRequest))
    if not about.is_from_cache:
        about.preference, about.priority = config.preference, config.priority
    if isinstance(request, device_pb2.PrepareModelWithConfigRequest):
        about.compilation_hints.extend(config.compilation_hints)
        about.extension_name_to_prefix.extend(config.extension_name_to_prefix)
        about.has_cache = bool(config.model_cache or config.data_cache or any(config.cache_token))
    else:
        about.has_cache = bool(request.model_cache or request.data_cache or any(request.token))
    deadline_ns = nanoseconds(config, "deadline_ns")
    if deadline_ns != NO_DEADLINE:
        about.deadline_in_ns = deadline_in_ns(deadline_ns, call.started_ns)
    prepared = None if call.error is not None else call.session.find(call.answer.prepared_model, PreparedModel)
    if prepared is not None:
        about.model.CopyFrom(recorded_model(prepared.model, active.constant))
    elif not about.is_from_cache:
        about.model.CopyFrom(_model_of(active, call))

    def fill(event: wire.RecordedEvent) -> Events:
        if prepared is not None:
            about.prepared_model = active.number_of(prepared)
        event.preparation.CopyFrom(about)
        return []

    return fill


def _question(active: ActiveRecording, call: InterceptedCall) -> Fill:
    about = wire.RecordedQuestion(model=_model_of(active, call))
    if call.error is None:
        about.supported.extend(call.answer.supported)

    def fill(event: wire.RecordedEvent) -> Events:
        event.question.CopyFrom(about)
        return []

    return fill


def _allocation(active: ActiveRecording, call: InterceptedCall) -> Fill:
    request = call.request
    buffer = None if call.error is not None else call.session.find(call.answer.buffer, DeviceBuffer)
    models = [call.session.find(handle, PreparedModel) for handle in request.prepared_models]
    if buffer is not None:
        active.is_new(buffer)

    def fill(event: wire.RecordedEvent) -> Events:
        about = event.allocation
        about.desc.CopyFrom(request.desc)
        about.largest_dimensions.extend(request.largest_dimensions)
        about.input_roles.extend(request.input_roles)
        about.output_roles.extend(request.output_roles)
        found = [earlier for model in models if model is not None for earlier in active.earlier_model(model)]
        about.prepared_models.extend(0 if model is None else active.number_of(model) for model in models)
        if buffer is not None:
            about.buffer = active.number_of(buffer)
        return found

    return fill


def _copy(active: ActiveRecording, call: InterceptedCall) -> Fill:
    buffer, is_into = call.target, call.title == "Buffer.CopyFrom"
    held = buffer.values() if isinstance(buffer, DeviceBuffer) and call.error is None else None
    kept: Bytes | int | None = None if held is None else held[0]
    if held is not None and not (active.wants_contents and active.notes.has_room(len(held[0]))):
        kept = len(held[0])

    def fill(event: wire.RecordedEvent) -> Events:
        about = event.copy
        about.is_into_buffer = is_into
        if isinstance(buffer, DeviceBuffer):
            about.buffer = active.number_of(buffer)
        if is_into:
            about.dimensions.extend(call.request.dimensions)
            about.empty.extend(call.request.empty)
        about.value.CopyFrom(active.content(kept))
        active.notes.written([kept])
        return []

    return fill


_RELEASED = {PreparedModel: "prepared_model", DeviceBuffer: "buffer", Execution: "request"}


def _release(active: ActiveRecording, call: InterceptedCall) -> Fill:
    target = call.target

    def fill(event: wire.RecordedEvent) -> Events:
        for kind, field in _RELEASED.items():
            if isinstance(target, kind) and active.is_known(target):
                setattr(event.release, field, active.number_of(target))
        return []

    return fill


def _model_of(active: ActiveRecording, call: InterceptedCall) -> wire.RecordedModel:
    """The model of a request, with its constants if it is valid."""
    try:
        return recorded_model(call.session.models.receive(call.request.model).resolved, active.constant)
    except HalError:
        return refused_model(call.request.model)


_ABOUT: dict[str, Callable[[ActiveRecording, InterceptedCall], Fill]] = {
    "Device.PrepareModel": _preparation,
    "Device.PrepareModelWithConfig": _preparation,
    "Device.PrepareModelFromCache": _preparation,
    "Device.GetSupportedOperations": _question,
    "Device.Allocate": _allocation,
    "Buffer.CopyFrom": _copy,
    "Buffer.CopyTo": _copy,
    "Buffer.Release": _release,
    "PreparedModel.Release": _release,
    "Execution.Release": _release,
}
"""What is recorded of calls whose arguments a replay needs. Of other calls, only that they were made."""
