"""The rows of the contract about IDevice.allocate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.extensions import extension_code
from nnhal.extensions.onnx import NAME, PREFIX
from nnhal.fence import FenceError, create_fence
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.types import BufferRole, ExtensionNameAndPrefix, Model, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.bystanders import bystander
from tests.support.device_memory import (
    FLOAT32,
    KINDS,
    OPEN,
    SHAPE,
    TWICE,
    Kind,
    adding,
    allocate,
    contents,
    doubling,
    everything_given_back,
    given,
    inside,
    memory_with,
    request_of,
)
from tests.support.models import Recipe
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until

ROLE = BufferRole(0, 0)
Roles = tuple[Sequence[BufferRole], Sequence[BufferRole]]
"""The indexes of inputs and of outputs."""
Make = Callable[[Kind, Dimensions], Model]
MODELS: list[Make] = [doubling, adding]
QUANTISED = ["unsigned", "signed"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def any_device(request: pytest.FixtureRequest) -> Iterator[RemoteDevice]:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    with RemoteDevice(endpoint, "test") as session:
        yield session


@pytest.fixture
def prepared(device: RemoteDevice, kind: Kind) -> RemotePreparedModel:
    return device.prepare_model(doubling(kind))


@pytest.fixture(autouse=True)
def nothing_is_left(cpu_ref: Endpoint) -> Iterator[None]:
    """Check that no test leaves a buffer, or any memory of one."""
    with everything_given_back(cpu_ref):
        yield


def of_inputs(*roles: BufferRole) -> Roles:
    return roles, ()


def of_outputs(*roles: BufferRole) -> Roles:
    return (), roles


EITHER = pytest.mark.parametrize("given", [of_inputs, of_outputs])
"""A role of an input, and one of an output."""


@EITHER
def test_the_same_role_of_two_preparations_of_one_model_is_two_roles(
    device: RemoteDevice, prepared: RemotePreparedModel, kind: Kind, given: Callable[..., Roles]
) -> None:
    again = device.prepare_model(doubling(kind))
    assert device.allocate([prepared, again], *given(ROLE, BufferRole(1, 0))).token > 0


PAIRINGS = {
    "inputs": of_inputs(ROLE, BufferRole(1, 0)),
    "input and output": ([ROLE], [BufferRole(1, 0)]),
    "output and input": ([BufferRole(1, 0)], [ROLE]),
    "outputs": of_outputs(ROLE, BufferRole(1, 0)),
}


@pytest.fixture(params=PAIRINGS)
def pairing(request: pytest.FixtureRequest) -> Roles:
    return PAIRINGS[request.param]


def refuse_pair(device: RemoteDevice, first: Model, second: Model, roles: Roles, words: str) -> None:
    models = [device.prepare_model(model) for model in (first, second)]
    refusal(lambda: device.allocate(models, *roles), INVALID, words)


@pytest.mark.contract("MD-08")
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(("first", "second"), [("float32", "float16"), ("unsigned", "signed")])
def test_roles_of_different_types_are_invalid(
    device: RemoteDevice, make: Make, first: str, second: str, pairing: Roles
) -> None:
    refuse_pair(device, make(KINDS[first], SHAPE), make(KINDS[second], SHAPE), pairing, "has type")


@pytest.mark.contract("MD-09")
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("name", QUANTISED)
def test_roles_of_different_scales_are_invalid(device: RemoteDevice, make: Make, name: str, pairing: Roles) -> None:
    other = Kind(KINDS[name].code, 1.0) if make is adding else Kind(KINDS[name].code, 0.25)
    refuse_pair(device, make(KINDS[name], SHAPE), make(other, SHAPE), pairing, "has scale")


@pytest.mark.contract("MD-10")
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("name", QUANTISED)
def test_roles_of_different_zero_points_are_invalid(
    device: RemoteDevice, make: Make, name: str, pairing: Roles
) -> None:
    other = Kind(KINDS[name].code, KINDS[name].scale, 10)
    refuse_pair(device, make(KINDS[name], SHAPE), make(other, SHAPE), pairing, "has zero_point")


@pytest.mark.contract("MD-11")
def test_roles_of_different_rank_are_invalid(device: RemoteDevice, kind: Kind, pairing: Roles) -> None:
    refuse_pair(device, adding(kind), adding(kind, SHAPE[:-1]), pairing, "the memory would have")


@pytest.mark.contract("MD-12")
@pytest.mark.parametrize("make", MODELS)
def test_roles_of_different_dimensions_are_invalid(
    device: RemoteDevice, make: Make, kind: Kind, pairing: Roles
) -> None:
    refuse_pair(device, make(kind, SHAPE), make(kind, (4, 32, 32, 8)), pairing, "the memory would have")


def with_scalar_input() -> Model:
    """An addition whose activation is the third input."""
    recipe = Recipe()
    inputs = [*(FLOAT32.input(recipe, SHAPE) for _ in range(2)), recipe.input(OperandType.INT32)]
    return recipe.build(recipe.operation(OperationType.ADD, inputs, FLOAT32.operand(SHAPE))).model


@pytest.mark.contract("MD-15")
def test_a_scalar_takes_no_dimensions_and_its_buffer_has_none(device: RemoteDevice) -> None:
    prepared, before = device.prepare_model(with_scalar_input()), device.usage().buffer_bytes
    for dimensions in ((1,), (0,), (1, 1)):
        refusal(partial(allocate, device, prepared, [2], dimensions=dimensions), INVALID, "for memory of a scalar")
    buffer = allocate(device, prepared, [2])
    assert device.usage().buffer_bytes == before + 4
    refusal(lambda: buffer.copy_from(create_ashmem(4), (1,)), INVALID, "for a scalar")
    buffer.copy_from(create_ashmem(4))
    assert contents(buffer, KINDS["unsigned"], 4).tolist() == [0] * 4


@pytest.mark.contract("MD-16", "MD-17")
@EITHER
@pytest.mark.parametrize("make", MODELS)
def test_one_valid_role_is_enough(
    any_device: RemoteDevice, make: Make, kind: Kind, given: Callable[..., Roles]
) -> None:
    prepared, before = any_device.prepare_model(make(kind, SHAPE)), any_device.usage()
    choices: list[Dimensions] = [(), (0, 0, 0, 0), (0, 32, 0, 8), SHAPE]
    for count, dimensions in enumerate(choices, 1):
        assert any_device.allocate([prepared], *given(ROLE), dimensions=dimensions).token > 0
        after = any_device.usage()
        assert after.buffers == before.buffers + count
        assert after.buffer_bytes == before.buffer_bytes + count * kind.size


@pytest.mark.contract("MD-18")
@EITHER
@pytest.mark.parametrize(
    ("dimensions", "images"), [((), 0), (OPEN, 0), ((0, 0, 0, 0), 0), (SHAPE, 1), (TWICE, 2), ((3, 0, 0, 8), 3)]
)
def test_an_axis_may_be_unknown_and_the_buffer_then_takes_no_memory(
    any_device: RemoteDevice, given: Callable[..., Roles], dimensions: Dimensions, images: int
) -> None:
    prepared, before = any_device.prepare_model(doubling(FLOAT32, OPEN)), any_device.usage().buffer_bytes
    buffer = any_device.allocate([prepared], *given(ROLE), dimensions=dimensions)
    assert any_device.usage().buffer_bytes == before + images * FLOAT32.size
    values = FLOAT32.values(1, max(1, images) * SHAPE[1] * SHAPE[2] * SHAPE[3])
    buffer.copy_from(memory_with(values), (max(1, images), 32, 32, 8))
    assert contents(buffer, count=len(values)).tolist() == values.tolist()


@pytest.mark.contract("MD-18")
def test_a_role_of_unknown_rank_takes_any_dimensions(device: RemoteDevice) -> None:
    prepared, before = device.prepare_model(adding(FLOAT32, ())), device.usage().buffer_bytes
    for dimensions, size in (((), 0), ((2, 0), 0), ((2, 3), 24)):
        buffer = allocate(device, prepared, [0, 1], [0], dimensions)
        assert device.usage().buffer_bytes == before + size
        buffer.release()


def test_the_known_dimensions_of_all_roles_are_combined(device: RemoteDevice) -> None:
    """One model knows the number of images, the other knows their size."""
    sizes: list[Dimensions] = [(2, 0, 32, 0), (0, 32, 0, 8)]
    models = [device.prepare_model(adding(FLOAT32, dimensions)) for dimensions in sizes]
    before = device.usage().buffer_bytes
    device.allocate(models, [ROLE], [BufferRole(1, 0)])
    assert device.usage().buffer_bytes == before + 2 * FLOAT32.size


def with_input_of_an_extension() -> Model:
    """An addition, and a further input of a type that is not the HAL's own."""
    model = adding(FLOAT32)
    main = model.main
    whole_numbers = Operand(extension_code(PREFIX, 7), (4,), lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    main = replace(
        main, operands=(*main.operands, whole_numbers), input_indexes=(*main.input_indexes, len(main.operands))
    )
    return replace(model, main=main, extension_name_to_prefix=(ExtensionNameAndPrefix(NAME, PREFIX),))


def test_values_of_extensions_cannot_be_in_device_memory(device: RemoteDevice) -> None:
    prepared = device.prepare_model(with_input_of_an_extension())
    refusal(lambda: allocate(device, prepared, [2]), FAILURE, "values of type 7 of nnhal.onnx")
    refusal(lambda: allocate(device, prepared, [2], dimensions=(5,)), INVALID, "the memory would have")
    assert allocate(device, prepared, [0]).token > 0


@pytest.mark.contract("MD-20")
def test_a_released_buffer_makes_room_for_another(device: RemoteDevice, prepared: RemotePreparedModel) -> None:
    before = device.usage()
    for _ in range(3):
        buffer = allocate(device, prepared, [0], [0])
        buffer.release()
        buffer.release()  # releasing again is ignored
        usage = device.usage()
        assert (usage.buffers, usage.buffer_bytes) == (before.buffers, before.buffer_bytes)


@pytest.fixture
def small_device(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteDevice]:
    """A device with memory for four tensors of one session: its process and it leave an eighth to others each."""
    monkeypatch.setenv("NNHAL_DEVICE_BUFFER_BYTES", str(4 * FLOAT32.size * 64 // 49 + 2))
    with device_process("cpu_ref", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as session:
        yield session


def test_allocating_more_memory_than_the_device_has_fails_and_harms_no_other_buffer(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(adding(FLOAT32, OPEN))
    words = "bytes do not fit the device's memory: .*NNHAL_DEVICE_BUFFER_BYTES"
    with bystander(small_device.endpoint) as other:
        first = other.device.prepare_model(adding(FLOAT32))
        kept = allocate(other.device, first, [0])
        kept.copy_from(memory_with(FLOAT32.values(1)))
        mine = allocate(small_device, prepared, [0], [0], TWICE)
        refusal(lambda: allocate(small_device, prepared, [0], dimensions=TWICE), FAILURE, words)
        refusal(lambda: allocate(small_device, prepared, [0], dimensions=(2**31 - 1, 32, 32, 8)), FAILURE, words)
        growing = allocate(small_device, prepared, [0], [0])
        refusal(lambda: growing.copy_from(memory_with(FLOAT32.values(1, 16384)), TWICE), FAILURE, words)
        growing.copy_from(memory_with(FLOAT32.values(2)), SHAPE)
        refusal(
            lambda: growing.copy_from(memory_with(FLOAT32.values(1, 16384)), TWICE),
            FAILURE,
            "all clients together hold 131072",
        )
        refusal(lambda: contents(growing), FAILURE, "uninitialised")
        assert contents(kept).tolist() == FLOAT32.values(1).tolist()
        mine.release()
        growing.copy_from(memory_with(FLOAT32.values(3, 16384)), TWICE)
        assert contents(growing, count=16384).tolist() == FLOAT32.values(3, 16384).tolist()
        assert small_device.usage().buffer_bytes == 3 * FLOAT32.size


def test_the_memory_of_a_session_that_has_ended_is_free_again(small_device: RemoteDevice) -> None:
    for _ in range(3):
        with RemoteDevice(small_device.endpoint, "test") as session:
            prepared = session.prepare_model(adding(FLOAT32))
            buffers = [allocate(session, prepared, [0]) for _ in range(4)]
            assert small_device.usage().buffer_bytes == 4 * FLOAT32.size
            refusal(partial(allocate, session, prepared, [0]), FAILURE, "NNHAL_DEVICE_BUFFER_BYTES")
            assert small_device.usage().buffers == len(buffers)
        wait_until(lambda: small_device.usage().buffer_bytes == 0, "the memory is released")
        assert small_device.usage().buffers == 0


def test_the_memory_of_failed_executions_is_free_again(small_device: RemoteDevice) -> None:
    prepared = small_device.prepare_model(adding(FLOAT32, OPEN))
    missing = request_of([inside(2**40), inside(2**40)], [inside(2**40)])
    for _ in range(20):
        full = allocate(small_device, prepared, [0], [0], (3, *SHAPE[1:]))
        other = allocate(small_device, prepared, [1], [0])
        request = request_of([inside(full, (3, *SHAPE[1:])), given(1, 3)], [inside(other)])
        execution = prepared.create_reusable_execution(request)
        refusal(lambda: prepared.execute(missing), INVALID)
        refusal(execution.execute, FAILURE, "input 0 is an uninitialised buffer")
        full.copy_from(memory_with(FLOAT32.values(1, 3 * 8192)))
        refusal(execution.execute, FAILURE, "do not fit the device's memory")
        signal, fence = create_fence()
        launched = prepared.execute_fenced(request_of([given(1), given(1)], [inside(other, SHAPE)]), [fence])
        signal.fail()
        assert launched.fence is not None
        with pytest.raises(FenceError):
            launched.fence.wait(30)
        for item in (launched, execution, full, other):
            item.release()
