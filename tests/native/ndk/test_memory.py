"""Memory for certain roles through the NDK's API: what a description may say, and what becomes of copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from nnhal.memory import create_ashmem, open_pool
from nnhal.types import Memory as SharedMemory
from nnhal.types import Model, Operand, OperandType, OperationType
from nnhal_native.ndk import Compilation, Execution, Memory, MemoryDesc, NeuralNetworksError, ResultCode, devices
from tests.native.ndk.support import framework_at
from tests.support.device_memory import FLOAT32, KINDS, OPEN, SHAPE, TWICE, Kind, adding
from tests.support.models import Recipe
from tests.support.testbeds import own_testbed

pytestmark = pytest.mark.sdk

ANY_FREQUENCY = 0.5


@pytest.fixture(scope="module", autouse=True)
def framework() -> Iterator[None]:
    """Run a framework over cpu_acc and cpu_ref, which is the one of the library."""
    with (
        own_testbed() as bed,
        framework_at(bed.framework),
    ):
        yield


Compile = Callable[..., Compilation]


@pytest.fixture
def compiled() -> Iterator[Compile]:
    """Compiles a model for a device that is named, or for any."""
    with ExitStack() as stack:

        def compile_(model: Model, device: str = "") -> Compilation:
            named = [d for d in devices() if d.name == device] if device else None
            compilation = stack.enter_context(Compilation(model, named))
            compilation.finish()
            return compilation

        yield compile_


def refused(code: ResultCode, words: str) -> pytest.RaisesExc[NeuralNetworksError]:
    return pytest.raises(NeuralNetworksError, match=words, check=lambda error: error.code == code)


def scaled_by_an_input() -> Model:
    recipe = Recipe()
    terms = [recipe.input(OperandType.TENSOR_FLOAT32, SHAPE) for _ in range(2)]
    activation = recipe.input(OperandType.INT32, ())
    result = Operand(OperandType.TENSOR_FLOAT32, SHAPE)
    return recipe.build(recipe.operation(OperationType.ADD, [*terms, activation], result)).model


def shared(values: np.ndarray) -> SharedMemory:
    memory = create_ashmem(values.nbytes)
    open_pool(memory, writable=True).write(0, values.view(np.uint8))
    return memory


def input_memory(compilation: Compilation, index: int = 0) -> Memory:
    description = MemoryDesc()
    description.add_input_role(compilation, index, 1.0)
    description.finish()
    return description.create()


@pytest.mark.contract("MR-13")
def test_a_role_is_given_once_and_is_one_of_the_model(compiled: Compile) -> None:
    compilation, twin = compiled(adding(FLOAT32)), compiled(adding(FLOAT32))
    description = MemoryDesc()
    description.add_input_role(compilation, 0, ANY_FREQUENCY)
    description.add_output_role(compilation, 0, ANY_FREQUENCY)
    description.add_input_role(twin, 0, ANY_FREQUENCY)
    for add, what in ((description.add_input_role, "input"), (description.add_output_role, "output")):
        with refused(ResultCode.BAD_DATA, f"{what} 0 of the same compilation is given twice"):
            add(compilation, 0, 1.0)
        for index in (-1, 2, 7):
            with refused(ResultCode.BAD_DATA, f"a role of {what} {index}, the model has" if index >= 0 else "negative"):
                add(compilation, index, 1.0)
    description.finish()


@pytest.mark.contract("MR-13")
@pytest.mark.parametrize("frequency", [0.0, -0.5, 1.01, 10.0, math.nan])
def test_a_frequency_is_above_0_and_at_most_1(compiled: Compile, frequency: float) -> None:
    compilation, description = compiled(adding(FLOAT32)), MemoryDesc()
    for add in (description.add_input_role, description.add_output_role):
        with refused(ResultCode.BAD_DATA, "expected above 0 and at most 1"):
            add(compilation, 0, frequency)
    with refused(ResultCode.BAD_DATA, "without a role"):
        description.finish()


@pytest.mark.contract("MR-13")
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (adding(FLOAT32), adding(KINDS["float16"]), "another type or quantisation"),
        (adding(KINDS["unsigned"]), adding(Kind(OperandType.TENSOR_QUANT8_ASYMM, 1.0)), "another type or quantisation"),
        (
            adding(KINDS["unsigned"]),
            adding(Kind(OperandType.TENSOR_QUANT8_ASYMM, 0.5, 10)),
            "another type or quantisation",
        ),
        (adding(FLOAT32), adding(FLOAT32, TWICE), r"\[2, 32, 32, 8\], the memory's so far are \[1, 32, 32, 8\]"),
        (adding(FLOAT32), adding(FLOAT32, SHAPE[:3]), r"\[1, 32, 32\], the memory's so far are"),
    ],
)
def test_roles_agree_in_all_that_is_said_of_values(compiled: Compile, first: Model, second: Model, words: str) -> None:
    description = MemoryDesc()
    description.add_input_role(compiled(first), 0, ANY_FREQUENCY)
    other = compiled(second)
    for add in (description.add_input_role, description.add_output_role):
        with refused(ResultCode.BAD_DATA, words):
            add(other, 0, ANY_FREQUENCY)
    description.finish()


@pytest.mark.contract("MR-13")
def test_dimensions_are_those_of_tensors_and_agree_with_the_roles(compiled: Compile) -> None:
    scalar = compiled(scaled_by_an_input())
    description = MemoryDesc()
    description.set_dimensions([1])
    with refused(ResultCode.BAD_DATA, r"dimensions \[1\] for memory of a scalar"):
        description.add_input_role(scalar, 2, ANY_FREQUENCY)
    description = MemoryDesc()
    description.add_input_role(scalar, 2, ANY_FREQUENCY)
    with refused(ResultCode.BAD_DATA, r"dimensions \[1\] for memory of a scalar"):
        description.set_dimensions([1])
    description = MemoryDesc()
    description.add_input_role(compiled(adding(FLOAT32, OPEN)), 0, ANY_FREQUENCY)
    for dimensions, words in (
        ([1, 32, 32], "so far are"),
        ([1, 32, 32, 9], "so far are"),
        ([-1, 32, 32, 8], "-1"),
    ):
        with refused(ResultCode.BAD_DATA, words):
            description.set_dimensions(dimensions)
    description.set_dimensions(TWICE)
    with refused(ResultCode.BAD_DATA, "so far are"):
        description.set_dimensions(SHAPE)


@pytest.mark.contract("MR-13")
def test_a_description_is_finished_once_and_not_changed_after_that(compiled: Compile) -> None:
    compilation, description = compiled(adding(FLOAT32)), MemoryDesc()
    with refused(ResultCode.BAD_DATA, "without a role"):
        description.finish()
    with refused(ResultCode.BAD_STATE, "not finished"):
        description.create()
    with Compilation(adding(FLOAT32)) as unfinished, refused(ResultCode.BAD_DATA, "not finished"):
        description.add_input_role(unfinished, 0, ANY_FREQUENCY)
    description.add_input_role(compilation, 0, ANY_FREQUENCY)
    description.finish()
    for change in (
        description.finish,
        lambda: description.add_input_role(compilation, 1, ANY_FREQUENCY),
        lambda: description.add_output_role(compilation, 0, ANY_FREQUENCY),
        lambda: description.set_dimensions(SHAPE),
    ):
        with refused(ResultCode.BAD_STATE, "finished already"):
            change()


@pytest.mark.contract("MR-05", "MR-11")
def test_values_go_from_the_host_over_two_devices_and_back(compiled: Compile) -> None:
    values = FLOAT32.values(1)
    first = input_memory(compiled(adding(FLOAT32), "nnapi-reference"))
    second = input_memory(compiled(adding(FLOAT32), "cpu_acc"))
    Memory(shared(values)).copy_to(first)
    first.copy_to(second)
    taken = create_ashmem(values.nbytes)
    second.copy_to(Memory(taken))
    np.testing.assert_array_equal(open_pool(taken, writable=False).read(0, values.nbytes).view(np.float32), values)


@pytest.mark.contract("MR-12")
def test_a_copy_from_what_holds_nothing_or_is_of_another_size_leaves_nothing(compiled: Compile) -> None:
    compilation = compiled(adding(FLOAT32), "nnapi-reference")
    memory, empty = input_memory(compilation), input_memory(compilation, 1)
    other = input_memory(compiled(adding(FLOAT32, TWICE), "cpu_acc"))
    values = Memory(shared(FLOAT32.values(1)))
    Memory(shared(FLOAT32.values(2, 2 * len(FLOAT32.values(1))))).copy_to(other)
    for source in (empty, other, Memory(create_ashmem(FLOAT32.size - 1)), Memory(create_ashmem(2 * FLOAT32.size))):
        values.copy_to(memory)
        memory.copy_to(values)
        with refused(ResultCode.BAD_DATA, "uninitialised|dimensions|bytes"):
            source.copy_to(memory)
        with refused(ResultCode.BAD_DATA, "uninitialised"):
            memory.copy_to(values)


def test_memory_of_the_application_is_copied_as_it_is() -> None:
    values = FLOAT32.values(3)
    copied = create_ashmem(values.nbytes)
    Memory(shared(values)).copy_to(Memory(copied))
    np.testing.assert_array_equal(open_pool(copied, writable=False).read(0, values.nbytes).view(np.float32), values)
    with refused(ResultCode.BAD_DATA, f"a source of 4 bytes and a destination of {values.nbytes}"):
        Memory(create_ashmem(4)).copy_to(Memory(copied))


@pytest.mark.contract("MR-10")
def test_memory_of_unknown_size_is_a_devices_own(compiled: Compile) -> None:
    memory = input_memory(compiled(adding(FLOAT32, OPEN), "nnapi-reference"))
    with refused(ResultCode.BAD_DATA, "all known"):
        Memory(shared(FLOAT32.values(1))).copy_to(memory)


@pytest.mark.contract("MR-14")
def test_memory_is_used_whole_and_for_its_roles_only(compiled: Compile) -> None:
    compilation, twin = (compiled(adding(FLOAT32), "nnapi-reference") for _ in range(2))
    memory, values = input_memory(compilation), FLOAT32.values(1)
    Memory(shared(values)).copy_to(memory)
    with Execution(compilation) as execution:
        for offset, length in ((4, 0), (0, FLOAT32.size), (4, 4)):
            with refused(ResultCode.BAD_DATA, "a part of memory that is used whole"):
                execution.set_input_from_memory(0, memory, offset, length)
            with refused(ResultCode.BAD_DATA, "is no role of the memory"):
                execution.set_output_from_memory(0, memory, offset, length)
    for used, index, words in ((compilation, 1, "input 1"), (twin, 0, "input 0")):
        with (
            Execution(used) as execution,
            refused(ResultCode.BAD_DATA, f"{words} of this compilation is no role of the memory"),
        ):
            execution.set_input_from_memory(index, memory)
            execution.set_input(1 - index, values.reshape(SHAPE))
            execution.set_output(0, np.empty(SHAPE, np.float32))
            execution.compute()
    with (
        Execution(compilation) as execution,
        refused(ResultCode.BAD_DATA, "output 0 of this compilation is no role of the memory"),
    ):
        execution.set_input(0, values.reshape(SHAPE))
        execution.set_input(1, values.reshape(SHAPE))
        execution.set_output_from_memory(0, memory)
        execution.compute()


@pytest.mark.contract("MR-15")
def test_memory_is_an_input_with_the_values_and_the_dimensions_that_it_has(compiled: Compile) -> None:
    compilation = compiled(adding(FLOAT32, OPEN), "nnapi-reference")
    description = MemoryDesc()
    description.add_input_role(compilation, 0, 1.0)
    description.add_output_role(compilation, 0, 1.0)
    description.finish()
    once, twice = FLOAT32.values(1).reshape(SHAPE), FLOAT32.values(2, 2 * len(FLOAT32.values(1))).reshape(TWICE)
    with description.create() as memory:

        def add(other: np.ndarray) -> np.ndarray:
            result = np.empty_like(other)
            given = Operand(OperandType.TENSOR_FLOAT32, other.shape)
            with Execution(compilation) as execution:
                execution.set_input_from_memory(0, memory, type=given)
                execution.set_input(1, other, given)
                execution.set_output(0, result, given)
                execution.compute()
            return result

        with refused(ResultCode.OP_FAILED, "uninitialised"):
            add(twice)
        with Execution(compilation) as execution:
            given = Operand(OperandType.TENSOR_FLOAT32, TWICE)
            execution.set_input(0, twice, given)
            execution.set_input(1, twice, given)
            execution.set_output_from_memory(0, memory)
            execution.compute()
        np.testing.assert_array_equal(add(twice), 3 * twice)
        with refused(ResultCode.BAD_DATA, r"\[1, 32, 32, 8\], the buffer has \[2, 32, 32, 8\]"):
            add(once)
        np.testing.assert_array_equal(add(twice), 3 * twice)
