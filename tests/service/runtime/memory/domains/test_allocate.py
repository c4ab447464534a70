from __future__ import annotations

import math
from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.memory import describe_buffer
from nnhal.types import ErrorStatus, HardwareBuffer
from nnhal.v1 import device_pb2
from nnhal_service.partition import Fallback
from nnhal_service.runtime import PreparedPlan
from nnhal_service.runtime.memory.domains import ModelRole, allocate
from tests.service.memory_bench import Start
from tests.support.scripted import refuse

OK: dict[str, Any] = {}
FAILURES: dict[str, dict[str, Any]] = {
    "token 0": {"Device.Allocate": device_pb2.AllocateResponse(buffer=7, token=0)},
    "a negative token": {"Device.Allocate": device_pb2.AllocateResponse(buffer=7, token=-1)},
    "no buffer": {"Device.Allocate": device_pb2.AllocateResponse(buffer=0, token=7)},
    "an error": {"Device.Allocate": refuse(HalError(ErrorStatus.GENERAL_FAILURE, "no memory"))},
    "not supported": {"Device.Allocate": None},
}
failing = pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES.keys())
TOGETHER = {"op:ADD": "a", "op:SUB": "a", "op:MUL": "a"}
APART = {"op:ADD": "a", "op:SUB": "b", "op:MUL": "c"}
P, Q, R, S = range(4)
T, Y = range(2)


def entry(prepared: PreparedPlan, index: int, probability: float = 1.0) -> ModelRole:
    return ModelRole(prepared, False, index, probability)


def result(prepared: PreparedPlan, index: int, probability: float = 1.0) -> ModelRole:
    return ModelRole(prepared, True, index, probability)


@pytest.mark.contract("MR-05")
def test_memory_with_roles_of_one_device_is_that_devices_buffer(start: Start) -> None:
    bench = start(OK)
    prepared = bench.load(TOGETHER)
    memory = allocate([entry(prepared, R, 0.25), result(prepared, Y, 0.5)])
    assert (memory.device, memory.host, memory.dimensions) == ("a", None, (1, 8))
    (request,) = bench.devices["a"].requests("Device.Allocate")
    assert list(request.desc.dimensions) == [1, 8]
    assert len(request.prepared_models) == 1
    assert [(r.model_index, r.io_index, r.probability) for r in request.input_roles] == [(0, 2, 0.25)]
    assert [(r.model_index, r.io_index, r.probability) for r in request.output_roles] == [(0, 1, 0.5)]
    memory.close()
    memory.close()
    assert bench.devices["a"].count("Buffer.Release") == 1


@pytest.mark.contract("MR-06")
@failing
def test_memory_with_roles_of_one_device_is_on_the_host_if_the_device_has_no_memory(
    start: Start, script: dict[str, Any]
) -> None:
    bench = start(script)
    memory = allocate([entry(bench.load(TOGETHER), P)])
    assert bench.allocations() == {"a": 1}
    assert memory.device == ""
    assert isinstance(memory.host, HardwareBuffer)
    assert describe_buffer(memory.host).byte_size == 32


@pytest.mark.contract("MR-07")
@failing
def test_memory_with_roles_of_one_device_is_refused_if_the_device_has_no_memory_and_fallback_is_denied(
    start: Start, script: dict[str, Any]
) -> None:
    bench = start(script)
    with pytest.raises(HalError, match="no device can allocate the memory, and a model denies host memory") as error:
        allocate([entry(bench.load(TOGETHER, Fallback.DENY), P)])
    assert error.value.status == ErrorStatus.GENERAL_FAILURE
    assert bench.allocations() == {"a": 1}


@pytest.mark.contract("MR-08")
@pytest.mark.parametrize(("index", "device", "position"), [(P, "a", 0), (Q, "a", 1), (R, "b", 0), (S, "c", 0)])
def test_memory_that_one_of_several_steps_reads_is_a_buffer_of_that_steps_device(
    start: Start, index: int, device: str, position: int
) -> None:
    bench = start(OK)
    prepared = bench.load(APART)
    assert [step.device for step in prepared.plan.steps] == ["a", "b", "c"]
    assert allocate([entry(prepared, index)]).device == device
    assert bench.allocations() == {device: 1}
    (request,) = bench.devices[device].requests("Device.Allocate")
    assert [(role.model_index, role.io_index) for role in request.input_roles] == [(0, position)]


@pytest.mark.contract("MR-08")
@failing
def test_memory_that_one_of_several_steps_reads_is_on_the_host_or_refused_if_that_device_has_no_memory(
    start: Start, script: dict[str, Any]
) -> None:
    bench = start(script)
    assert allocate([entry(bench.load(APART), R)]).device == ""
    with pytest.raises(HalError, match="denies"):
        allocate([entry(bench.load(APART, Fallback.DENY), R)])
    assert bench.allocations() == {"b": 2}


@pytest.mark.contract("MR-09")
@pytest.mark.parametrize("roles", ["output read elsewhere", "inputs of two devices"])
def test_memory_with_roles_of_several_devices_is_on_the_host_or_refused_and_no_device_is_asked(
    start: Start, roles: str
) -> None:
    bench = start(OK)

    def used(prepared: PreparedPlan) -> list[ModelRole]:
        return [result(prepared, T)] if roles == "output read elsewhere" else [entry(prepared, P), entry(prepared, R)]

    assert allocate(used(bench.load(APART))).device == ""
    with pytest.raises(HalError, match="it is used on a, b, expected one device") as error:
        allocate(used(bench.load(APART, Fallback.DENY)))
    assert error.value.status == ErrorStatus.GENERAL_FAILURE
    assert bench.allocations() == {}


@pytest.mark.contract("MR-10")
def test_memory_of_unknown_size_is_a_devices_buffer(start: Start) -> None:
    bench = start(OK)
    memory = allocate([result(bench.load(TOGETHER, dimensions=[None, 8]), Y)])
    assert (memory.device, memory.dimensions) == ("a", (0, 8))


@pytest.mark.contract("MR-10")
@failing
def test_memory_of_unknown_size_is_never_on_the_host(start: Start, script: dict[str, Any]) -> None:
    bench = start(script)
    prepared = bench.load(TOGETHER, dimensions=[None, 8])
    with pytest.raises(HalError, match=r"host cannot for dimensions \[\?, 8\]") as error:
        allocate([result(prepared, Y)])
    assert error.value.status == ErrorStatus.GENERAL_FAILURE
    assert allocate([result(prepared, Y)], (2, 8)).device == ""


def test_memory_for_several_models_of_one_device_has_the_roles_of_both(start: Start) -> None:
    bench = start(OK)
    first, second = bench.load(TOGETHER), bench.load(TOGETHER)
    assert allocate([result(first, Y), entry(second, P), entry(second, Q)]).device == "a"
    (request,) = bench.devices["a"].requests("Device.Allocate")
    assert len(set(request.prepared_models)) == 2
    assert [(role.model_index, role.io_index) for role in request.output_roles] == [(0, 1)]
    assert [(role.model_index, role.io_index) for role in request.input_roles] == [(1, 0), (1, 1)]


@pytest.mark.contract("MR-09")
def test_one_model_that_denies_fallback_is_enough_to_refuse_memory(start: Start) -> None:
    bench = start(FAILURES["an error"])
    with pytest.raises(HalError, match="denies"):
        allocate([entry(bench.load(TOGETHER), P), entry(bench.load(TOGETHER, Fallback.DENY), P)])


@pytest.mark.parametrize("probability", [0.0, -0.5, 1.5, math.nan])
def test_a_probability_is_above_0_and_at_most_1(start: Start, probability: float) -> None:
    with pytest.raises(HalError, match=f"input 0 has probability {probability}") as error:
        allocate([entry(start(OK).load(TOGETHER), P, probability)])
    assert error.value.status == ErrorStatus.INVALID_ARGUMENT


def test_roles_that_do_not_agree_or_do_not_exist_are_refused_before_any_device_is_asked(start: Start) -> None:
    bench = start(OK)
    prepared, other = bench.load(TOGETHER), bench.load(TOGETHER, dimensions=[2, 8])
    for roles, dimensions, words in (
        ([], (), "without a role"),
        ([entry(prepared, P), entry(prepared, P)], (), "input 0 is given twice for the same model"),
        ([entry(prepared, 4)], (), "a role of input 4, the model has 4"),
        ([result(prepared, -1)], (), "a role of output -1, the model has 2"),
        ([entry(prepared, P), entry(other, P)], (), r"input 0 has dimensions \[2, 8\], the memory would have \[1, 8\]"),
        ([entry(prepared, P)], (1, 9), "the memory would have"),
        ([entry(prepared, P)], (8,), "the memory would have"),
        ([entry(prepared, P)], (-1, 8), "none below 0"),
    ):
        with pytest.raises(HalError, match=words) as error:
            allocate(roles, dimensions)
        assert error.value.status == ErrorStatus.INVALID_ARGUMENT
    assert bench.allocations() == {}
