"""Preparations of models at the level of messages: arguments, notifications and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.errors import HalError, NnhalError
from nnhal.types import NO_DEADLINE, ErrorStatus, ExtensionNameAndPrefix, Model, TokenValuePair
from nnhal.v1 import device_pb2, types_pb2
from tests.support.wire import NO_TOKEN, WireDevice


@dataclass(frozen=True)
class Arguments:
    """The arguments of a preparation besides its model."""

    preference: int = 1
    """An ExecutionPreference, or an invalid number."""
    priority: int = 1
    """A Priority, or an invalid number."""
    deadline_ns: int = NO_DEADLINE
    """An instant of CLOCK_BOOTTIME."""
    token: bytes = NO_TOKEN
    """The token of the cache entry."""
    cache: Sequence[int] = ()
    """Ids of descriptors, which are both the model-cache and the data-cache files."""
    hints: Sequence[TokenValuePair] = ()
    """Compilation hints, for prepareModelWithConfig only."""
    extension_names: Sequence[ExtensionNameAndPrefix] = ()
    """Extensions and their prefixes, for prepareModelWithConfig only."""


Outcome = tuple[list[device_pb2.Preparation], NnhalError | None]
Prepare = Callable[[WireDevice, Model, Arguments], Outcome]


def prepare_model(wire: WireDevice, model: Model, arguments: Arguments) -> Outcome:
    cache = [device_pb2.CacheFile(descriptor_id=number) for number in arguments.cache]
    message = device_pb2.PrepareModelRequest(
        model=wire.model(model),
        preference=types_pb2.ExecutionPreference.ValueType(arguments.preference),
        priority=types_pb2.Priority.ValueType(arguments.priority),
        deadline_ns=arguments.deadline_ns,
        model_cache=cache,
        data_cache=cache,
        token=arguments.token,
    )
    return wire.events(wire.device.PrepareModel, message)


def prepare_model_with_config(wire: WireDevice, model: Model, arguments: Arguments) -> Outcome:
    cache = [device_pb2.CacheFile(descriptor_id=number) for number in arguments.cache]
    config = device_pb2.PrepareModelConfig(
        preference=types_pb2.ExecutionPreference.ValueType(arguments.preference),
        priority=types_pb2.Priority.ValueType(arguments.priority),
        deadline_ns=arguments.deadline_ns,
        model_cache=cache,
        data_cache=cache,
        cache_token=arguments.token,
        compilation_hints=hints_to_wire(arguments.hints),
        extension_name_to_prefix=extension_names_to_wire(arguments.extension_names),
    )
    message = device_pb2.PrepareModelWithConfigRequest(model=wire.model(model), config=config)
    return wire.events(wire.device.PrepareModelWithConfig, message)


def kinds(events: Sequence[device_pb2.Preparation]) -> list[str | None]:
    return [event.WhichOneof("event") for event in events]


def assert_notified_and_thrown(outcome: Outcome, status: ErrorStatus, words: str) -> None:
    """Check that the callback is notified of an error, and that the call ends with the same error."""
    events, error = outcome
    assert kinds(events) == ["notified"]
    notified = events[0].notified
    assert ErrorStatus(notified.status) == status
    assert notified.prepared_model == 0
    assert isinstance(error, HalError)
    assert (error.status, error.message) == (status, notified.message)
    assert words in error.message


def assert_only_notified(outcome: Outcome, status: ErrorStatus, words: str) -> None:
    """Check that the call succeeds, and that the callback is notified of an error."""
    events, error = outcome
    assert error is None
    assert kinds(events) == ["launched", "notified"]
    notified = events[1].notified
    assert (ErrorStatus(notified.status), notified.prepared_model) == (status, 0)
    assert words in notified.message
