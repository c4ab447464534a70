"""Fields of gRPC calls in recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec import nanoseconds
from nnhal.errors import HalError
from nnhal.recording import recorded_model, refused_model
from nnhal.types import NO_DEADLINE
from nnhal.v1 import device_pb2
from nnhal.v1 import recording_pb2 as wire
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.recording.active import ActiveRecording, Events, deadline_in_ns
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSession


class Call(NamedTuple):
    """A call as it arrives."""

    method: str
    client: ClientSession | None
    request: Any
    started_ns: int
    target: object | None
    """The object that it is about, which a release takes from the session."""


class AnsweredCall(NamedTuple):
    """A call that has been answered, or has failed."""

    call: Call
    answer: Any
    error: HalError | None


Fill = Callable[[wire.RecordedEvent], Events]
"""Has an event tell what a call was about, and returns the events that come before it."""


def target_of(client: ClientSession | None, request: Any) -> object | None:
    """The prepared model, the buffer or the execution that a request names."""
    for field in ("prepared_model", "buffer", "execution"):
        handle = getattr(request, field, None)
        if client is not None and isinstance(handle, int) and handle:
            return client.find(handle, object)
    return None


def tell(active: ActiveRecording, call: Call, answer: Any, error: HalError | None) -> None:
    """Note a call that has been answered, or has failed with an error. Whatever goes wrong here ends the recording."""
    try:
        _tell(active, call, answer, error)
    except Exception as problem:
        active.give_up(problem)


def _tell(active: ActiveRecording, call: Call, answer: Any, error: HalError | None) -> None:
    ended_ns = now_ns()
    about = _ABOUT.get(call.method)
    fill = _nothing if about is None or call.client is None else about(active, AnsweredCall(call, answer, error))

    def events() -> Events:
        event = active.event(call.method, call.client, call.started_ns, ended_ns)
        if error is not None:
            active.fail(event, error)
        return [*fill(event), event]

    active.notes.add(events)


def _nothing(event: wire.RecordedEvent) -> Events:
    del event
    return []


def _preparation(active: ActiveRecording, answered: AnsweredCall) -> Fill:
    """A preparation; its model is written now, since its constants may be many."""
    call, answer, error = answered
    assert call.client is not None
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
    prepared = None if error is not None else call.client.find(answer.prepared_model, PreparedModel)
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


def _question(active: ActiveRecording, answered: AnsweredCall) -> Fill:
    about = wire.RecordedQuestion(model=_model_of(active, answered.call))
    if answered.error is None:
        about.supported.extend(answered.answer.supported)

    def fill(event: wire.RecordedEvent) -> Events:
        event.question.CopyFrom(about)
        return []

    return fill


def _allocation(active: ActiveRecording, answered: AnsweredCall) -> Fill:
    client, request = answered.call.client, answered.call.request
    assert client is not None
    buffer = None if answered.error is not None else client.find(answered.answer.buffer, DeviceBuffer)
    models = [client.find(handle, PreparedModel) for handle in request.prepared_models]
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


def _copy(active: ActiveRecording, answered: AnsweredCall) -> Fill:
    call = answered.call
    buffer, is_into = call.target, call.method == "Buffer.CopyFrom"
    held = buffer.values() if isinstance(buffer, DeviceBuffer) and answered.error is None else None
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


def _release(active: ActiveRecording, answered: AnsweredCall) -> Fill:
    target = answered.call.target

    def fill(event: wire.RecordedEvent) -> Events:
        if isinstance(target, PreparedModel) and active.is_known(target):
            event.release.prepared_model = active.number_of(target)
        elif isinstance(target, DeviceBuffer) and active.is_known(target):
            event.release.buffer = active.number_of(target)
        elif isinstance(target, Execution) and active.is_known(target):
            event.release.request = active.number_of(target)
        return []

    return fill


def _model_of(active: ActiveRecording, call: Call) -> wire.RecordedModel:
    """The model of a request, with its constants if it is valid."""
    assert call.client is not None
    try:
        return recorded_model(call.client.models.receive(call.request.model).resolved, active.constant)
    except HalError:
        return refused_model(call.request.model)


_ABOUT: dict[str, Callable[[ActiveRecording, AnsweredCall], Fill]] = {
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
