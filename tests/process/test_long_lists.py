"""Requests whose lists are longer than any model needs: they are refused before their entries are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnhal.codec.bounds import MAX_ARGUMENTS, MAX_FENCES, MAX_HINTS, MAX_POOLS, MAX_ROLES
from nnhal.v1 import device_pb2, execution_pb2, memory_pb2, model_pb2, prepared_model_pb2, request_pb2, types_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.entry_points import Target, bind
from tests.support.refusals import INVALID, refusal
from tests.support.wire import WireDevice

Ask = Callable[[WireDevice], object]


def execute(request: request_pb2.Request) -> Ask:
    return lambda wire: wire.call(
        wire.prepared_model.ExecuteSynchronously,
        prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyRequest(
            prepared_model=wire.prepare(addition_model()), request=request
        ),
    )


def with_hints(**lists: Any) -> Ask:
    return lambda wire: wire.call(
        wire.prepared_model.CreateReusableExecution,
        prepared_model_pb2.CreateReusableExecutionRequest(
            prepared_model=wire.prepare(addition_model()), config=request_pb2.ExecutionConfig(**lists)
        ),
    )


def launch(wire: WireDevice) -> object:
    """Launch what would wait for very many fences."""
    target, addition = Target(wire, wire.prepare(addition_model())), addition_in_ashmem()
    message = execution_pb2.ExecutionServiceExecuteFencedRequest(
        execution=bind(target, addition.request), wait_for_descriptor_ids=[1] * (MAX_FENCES + 1)
    )
    return wire.call(wire.execution.ExecuteFenced, message)


def allocate(**lists: Any) -> Ask:
    return lambda wire: wire.call(wire.device.Allocate, device_pb2.AllocateRequest(**lists))


def supports(model: model_pb2.Model) -> Ask:
    return lambda wire: wire.call(
        wire.device.GetSupportedOperations, device_pb2.GetSupportedOperationsRequest(model=model)
    )


LONG: dict[str, tuple[Ask, str]] = {
    "pools": (
        execute(request_pb2.Request(pools=[request_pb2.RequestMemoryPool(token=1)] * (MAX_POOLS + 1))),
        "4097 pools of the request, expected at most 4096",
    ),
    "inputs": (
        execute(request_pb2.Request(inputs=[request_pb2.RequestArgument()] * (MAX_ARGUMENTS + 1))),
        "65537 inputs of the request, expected at most 65536",
    ),
    "outputs": (
        execute(request_pb2.Request(outputs=[request_pb2.RequestArgument()] * (MAX_ARGUMENTS + 1))),
        "65537 outputs of the request, expected at most 65536",
    ),
    "hints": (
        with_hints(execution_hints=[types_pb2.TokenValuePair(token=number) for number in range(MAX_HINTS + 1)]),
        "1025 hints, expected at most 1024",
    ),
    "extensions": (
        with_hints(extension_name_to_prefix=[types_pb2.ExtensionNameAndPrefix()] * (MAX_HINTS + 1)),
        "1025 extensions, expected at most 1024",
    ),
    "fences": (launch, "257 fences to wait for, expected at most 256"),
    "input roles": (
        allocate(input_roles=[device_pb2.BufferRole()] * (MAX_ROLES + 1)),
        "4097 input roles, expected at most 4096",
    ),
    "output roles": (
        allocate(output_roles=[device_pb2.BufferRole()] * (MAX_ROLES + 1)),
        "4097 output roles, expected at most 4096",
    ),
    "prepared models": (
        allocate(prepared_models=[1] * (MAX_ROLES + 1)),
        "4097 prepared models, expected at most 4096",
    ),
    "pools of a model": (
        supports(model_pb2.Model(pools=[memory_pb2.Memory()] * (MAX_POOLS + 1))),
        "4097 pools of the model, expected at most 4096",
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_a_list_that_is_too_long_is_refused(wire: WireDevice, name: str) -> None:
    ask, words = LONG[name]
    refusal(lambda: ask(wire), INVALID, words)
