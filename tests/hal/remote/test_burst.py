"""A client's bursts: tokens of memory, and what a burst cannot do."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest

from nnhal.errors import DeadObjectError
from nnhal.memory import create_ashmem, create_blob, map_file
from nnhal.memory.ashmem import create_sealed
from nnhal.remote import RemoteBurst, RemoteDevice
from nnhal.types import Ashmem, MappableFile, Memory, Request
from nnhal.v1 import burst_pb2, types_pb2
from tests.support.additions import POOL_BYTES, addition_in_ashmem, addition_model
from tests.support.refusals import FAILURE, refusal
from tests.support.scripted import SUCCESS, ScriptedDevice, Serve, kill, scripted_process

Burst = tuple[RemoteBurst, ScriptedDevice]


@pytest.fixture
def burst(scripted: Serve) -> Burst:
    """Open a burst and the device that records what is sent on it."""
    device, other_side = scripted()
    return device.prepare_model(addition_model()).configure_execution_burst(), other_side


def of(*pools: Memory | int) -> Request:
    return Request((), (), pools)


def said(device: ScriptedDevice) -> list[list[int] | int]:
    """Return what was sent on the channel: the tokens of executions, and the released tokens."""
    return [
        list(call.execute_with_config.memory_identifier_tokens)
        if call.WhichOneof("call") == "execute_with_config"
        else call.release_memory_resource.memory_identifier_token
        for call in device.burst_calls
    ]


@pytest.mark.contract("BU-16")
def test_identifiers_ascend_and_memory_keeps_its_own(burst: Burst) -> None:
    first, second, third = (create_ashmem(64) for _ in range(3))
    for pools in [(first,), (second, first), (first, third, second), (third,)]:
        burst[0].execute(of(*pools))
    assert said(burst[1]) == [[0], [1, 0], [0, 2, 1], [2]]


@pytest.mark.contract("BU-16")
def test_memory_is_released_once_when_its_last_holder_lets_go_and_its_number_is_not_used_again(burst: Burst) -> None:
    first, kept = create_ashmem(64), create_ashmem(64)
    request, other_holder = of(first, kept), [first]
    burst[0].execute(request)
    del first
    burst[0].execute(of(kept))
    del request
    burst[0].execute(of(kept))
    assert said(burst[1]) == [[0, 1], [1], [1]]
    other_holder.clear()
    gc.collect()
    for _ in range(2):
        burst[0].execute(of(kept, create_ashmem(64)))
    assert said(burst[1])[3:] == [0, [1, 2], 2, [1, 3]]


@pytest.mark.contract("BU-16")
def test_memory_is_released_before_the_next_call_of_any_kind(scripted: Serve) -> None:
    device, other_side = scripted()
    prepared = device.prepare_model(addition_model())
    burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(of())
    burst.execute(of(create_ashmem(64), create_ashmem(64)))
    gc.collect()
    burst.run(execution)
    kinds = [call.WhichOneof("call") for call in other_side.burst_calls]
    assert kinds == ["execute_with_config", "release_memory_resource", "release_memory_resource", "run"]
    assert sorted(token for token in said(other_side)[1:3] if isinstance(token, int)) == [0, 1]


@pytest.mark.contract("BU-14", "BU-16")
def test_device_buffers_have_no_identifier_of_the_burst(burst: Burst) -> None:
    memory = create_ashmem(64)
    burst[0].execute(of(5, memory, 6))
    assert said(burst[1]) == [[-1, 0, -1]]


@pytest.mark.contract("BU-16")
def test_the_same_memory_is_known_by_what_it_is(burst: Burst) -> None:
    memory = create_ashmem(64)
    file = map_file(create_sealed(8192, "test"), 8192)
    half = replace(file, length=4096)
    blob = create_blob(POOL_BYTES)
    pools: list[Memory] = [memory, Ashmem(memory.descriptor, 64), file, half, replace(file), blob, replace(blob)]
    burst[0].execute(of(*pools))
    assert said(burst[1]) == [[0, 0, 1, 2, 1, 3, 3]]
    assert isinstance(half, MappableFile)
    del pools, file, half
    gc.collect()
    burst[0].execute(of(memory, blob))
    assert said(burst[1])[1:] in ([1, 2, [0, 3]], [2, 1, [0, 3]])


@pytest.mark.contract("BU-16")
def test_each_burst_counts_for_itself(scripted: Serve) -> None:
    device, other_side = scripted()
    prepared = device.prepare_model(addition_model())
    memory, other = create_ashmem(64), create_ashmem(64)
    for _ in range(2):
        burst = prepared.configure_execution_burst()
        burst.execute(of(other, memory))
        burst.close()
    assert said(other_side) == [[0, 1], [0, 1]]


def test_tokens_that_a_caller_gives_are_sent_as_they_are(burst: Burst) -> None:
    memory = create_ashmem(64)
    for tokens in ([7], [-1], [-2], []):
        burst[0].execute(of(memory), tokens)
    assert said(burst[1]) == [[7], [-1], [-2], []]


def test_a_device_that_refuses_a_release_does_not_spoil_the_next_call(scripted: Serve) -> None:
    def answer(call: burst_pb2.BurstCall) -> burst_pb2.BurstAnswer:
        if call.WhichOneof("call") == "release_memory_resource":
            return burst_pb2.BurstAnswer(status=types_pb2.ERROR_STATUS_GENERAL_FAILURE, message="no")
        return burst_pb2.BurstAnswer(result=SUCCESS)

    device, other_side = scripted(on_burst=answer)
    burst = device.prepare_model(addition_model()).configure_execution_burst()
    burst.execute(of(create_ashmem(64)))
    gc.collect()
    for _ in range(2):
        burst.execute(of())
    assert said(other_side) == [[0], 0, [], []]


@pytest.mark.contract("BU-15")
def test_a_burst_cannot_launch(burst: Burst) -> None:
    refusal(lambda: burst[0].execute_fenced(of()), FAILURE, "a burst cannot launch")
    assert said(burst[1]) == []


@pytest.mark.contract("RS-04")
def test_an_answer_of_no_known_status_is_a_general_failure(scripted: Serve) -> None:
    device, _ = scripted(
        on_burst=lambda _: burst_pb2.BurstAnswer(status=types_pb2.ErrorStatus.ValueType(99), message="what")
    )
    burst = device.prepare_model(addition_model()).configure_execution_burst()
    refusal(lambda: burst.execute(of()), FAILURE, "what")


@pytest.mark.contract("RS-02", "RS-13")
def test_a_burst_reports_a_dead_service_at_the_next_execution(short_path: Path) -> None:
    with scripted_process(short_path) as (process, endpoint), RemoteDevice(endpoint, "test") as device:
        prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
        burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(request)
        burst.execute(request)
        kill(process)
        with pytest.raises(DeadObjectError):
            burst.execute(request)
        with pytest.raises(DeadObjectError):
            burst.run(execution)
