"""Unknown dimensions of models, and buffers of the wrong size, through the NDK's API on cpu_ref."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.operations.operand_types import F16, F32, I32, Q8A
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_native.ndk import (
    Compilation,
    Execution,
    MemoryDesc,
    OutputInsufficientSizeError,
    ResultCode,
)
from tests.native.ndk.support import WAYS, framework_over, named, refused
from tests.support.models import Recipe

pytestmark = pytest.mark.sdk

SCALES = {F32: 0.0, F16: 0.0, Q8A: 0.5}
FULL, UNKNOWN_AXIS, UNKNOWN_RANK = (2, 3), (0, 3), ()
SHAPES: dict[str, Dimensions] = {"known": FULL, "unknown axis": UNKNOWN_AXIS, "unknown rank": UNKNOWN_RANK}


@pytest.fixture(scope="module", autouse=True)
def framework(cpu_ref: Endpoint) -> Iterator[None]:
    """Run a framework over cpu_ref alone."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        framework_over(Path(directory), {"cpu_ref": cpu_ref}),
    ):
        yield


Compile = Callable[[Model], Compilation]


@pytest.fixture(params=["named", "default"])
def compiled(request: pytest.FixtureRequest) -> Iterator[Compile]:
    """Return what compiles for the CPU, which the application names or not."""
    made: list[Compilation] = []

    def start(model: Model) -> Compilation:
        named_ones = named("nnapi-reference") if request.param == "named" else None
        made.append(Compilation(model, named_ones))
        made[-1].finish()
        return made[-1]

    yield start
    for compilation in made:
        compilation.close()


def addition(first: Dimensions, second: Dimensions, result: Dimensions, code: OperandType = F32) -> Model:
    """Return a model of the sum of two tensors."""
    recipe = Recipe()
    terms = [recipe.input(code, dimensions, SCALES[code]) for dimensions in (first, second)]
    total = recipe.operation(OperationType.ADD, [*terms, *recipe.integers(0)], Operand(code, result, SCALES[code]))
    return recipe.build(total).model


def of(dimensions: Dimensions, code: OperandType = F32) -> Operand:
    """Return the operand type that an application passes."""
    return Operand(code, dimensions, SCALES[code])


def ones(dimensions: Dimensions, code: OperandType = F32) -> Array:
    """Return values that are all 1, or 0.5 if they are quantised."""
    return np.ones(dimensions, ELEMENT_TYPES[code])


def both_ways(execution: Execution) -> Iterator[Callable[[], None]]:
    """Return ways to compute an execution repeatedly."""
    yield execution.compute
    yield lambda: execution.start_compute_with_dependencies().wait()


@pytest.mark.contract("UD-01")
@pytest.mark.parametrize("code", [F32, F16, Q8A], ids=lambda code: code.name)
@pytest.mark.parametrize("result", SHAPES)
@pytest.mark.parametrize("second", SHAPES)
@pytest.mark.parametrize("first", SHAPES)
def test_dimensions_that_the_model_does_not_know_are_completed_by_the_execution(
    compiled: Compile, first: str, second: str, result: str, code: OperandType
) -> None:
    compilation = compiled(addition(SHAPES[first], SHAPES[second], SHAPES[result], code))
    total = np.zeros(FULL, ELEMENT_TYPES[code])
    with Execution(compilation) as execution:
        execution.set_reusable(True)
        execution.set_input(0, ones(FULL, code), of(FULL, code))
        execution.set_input(1, ones(FULL, code), of(FULL, code))
        execution.set_output(0, total, of(FULL, code))
        for compute in both_ways(execution):
            total[:] = 0
            compute()
            assert np.all(total == 2)
            assert execution.output_operand_dimensions(0) == FULL


def with_constant(dimensions: Dimensions, length: int) -> Model:
    """Return a model that adds a constant."""
    model = addition((4,), (4,), (4,))
    operands = list(model.main.operands)
    operands[1] = replace(
        operands[1],
        dimensions=dimensions,
        lifetime=OperandLifeTime.CONSTANT_COPY,
        location=DataLocation(0, len(model.operand_values), length),
    )
    main = replace(model.main, operands=tuple(operands), input_indexes=(0,))
    return replace(model, main=main, operand_values=model.operand_values + bytes(64))


@pytest.mark.contract("UD-02")
@pytest.mark.parametrize(
    ("dimensions", "length"), [((), 16), ((0,), 16), ((4,), 12), ((4,), 20)], ids=["rank", "axis", "short", "long"]
)
def test_all_dimensions_of_a_constant_must_be_known(dimensions: Dimensions, length: int) -> None:
    with Compilation(with_constant((4,), 16)) as good:
        good.finish()
    refused(ResultCode.BAD_DATA, lambda: Compilation(with_constant(dimensions, length)))


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_contradicts_itself_compiles_and_fails_when_it_is_computed(way: str) -> None:
    with Compilation(addition(FULL, FULL, (2, 4))) as compilation:
        compilation.finish()
        refused(ResultCode.BAD_STATE, compilation.finish)
        with Execution(compilation) as execution:
            for number in range(2):
                execution.set_input(number, ones(FULL))
            execution.set_output(0, ones((2, 4)))
            refused(ResultCode.OP_FAILED, lambda: WAYS[way](execution, compilation), "dimensions")
            refused(ResultCode.BAD_STATE, lambda: execution.output_operand_dimensions(0), "has failed")
        description = MemoryDesc()
        description.add_input_role(compilation, 0, 1.0)
        description.finish()
        refused(ResultCode.OP_FAILED, description.create, "no compilation can use the memory")


@pytest.mark.contract("UD-03", "UD-13")
@pytest.mark.parametrize("given", [(3, 3), (2, 4), (2,), (2, 3, 1), (0, 3), (2, 0), ()], ids=str)
def test_dimensions_that_contradict_the_model_or_are_less_specific_are_bad_data(
    compiled: Compile, given: Dimensions
) -> None:
    with Execution(compiled(addition(FULL, FULL, FULL))) as execution:
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(0, ones(FULL), of(given)))
        refused(ResultCode.BAD_DATA, lambda: execution.set_output(0, ones(FULL), of(given)))


@pytest.mark.contract("UD-03")
def test_a_rank_that_contradicts_the_model_is_bad_data(compiled: Compile) -> None:
    with Execution(compiled(addition(UNKNOWN_AXIS, FULL, UNKNOWN_AXIS))) as execution:
        for given in ((2,), (2, 4), (2, 3, 1)):
            refused(ResultCode.BAD_DATA, partial(execution.set_input, 0, ones(FULL), of(given)))
            refused(ResultCode.BAD_DATA, partial(execution.set_output, 0, ones(FULL), of(given)))


def test_of_an_operand_type_only_the_dimensions_count(compiled: Compile, caplog: pytest.LogCaptureFixture) -> None:
    with Execution(compiled(addition(UNKNOWN_AXIS, FULL, FULL))) as execution:
        total = np.zeros(FULL, np.float32)
        execution.set_input(0, ones(FULL), replace(of(FULL, F16), scale=0.5, zero_point=3))
        execution.set_input(1, ones(FULL), of(FULL))
        execution.set_output(0, total, of(FULL))
        execution.compute()
        assert np.all(total == 2)
    assert [record.message for record in caplog.records if "only the dimensions count" in record.message] in (
        [],  # another test of this process has had it said
        [
            "input 0 is given with another type or quantisation than the model's, of which, as on a phone, only the "
            "dimensions count"
        ],
    )


@pytest.mark.contract("UD-04", "UD-05")
@pytest.mark.parametrize("shape", ["unknown axis", "unknown rank"])
def test_dimensions_must_be_known_for_an_input_that_is_set_but_not_for_an_output(compiled: Compile, shape: str) -> None:
    compilation = compiled(addition(SHAPES[shape], FULL, SHAPES[shape]))
    total = np.zeros(FULL, np.float32)
    with Execution(compilation) as execution:
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(0, ones(FULL)))
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(0, ones(FULL), of(SHAPES[shape])))
        execution.set_input(0, ones(FULL), of(FULL))
        execution.set_input(1, ones(FULL))
        execution.set_output(0, total)
        execution.compute()
        assert np.all(total == 2)


@pytest.mark.contract("UD-06", "UD-07", "UD-08")
def test_buffers_must_have_the_size_of_known_dimensions(compiled: Compile) -> None:
    with Execution(compiled(addition(FULL, FULL, FULL))) as execution:
        for length in (5, 7):
            refused(ResultCode.BAD_DATA, partial(execution.set_input, 0, ones((length,))))
            refused(ResultCode.BAD_DATA, partial(execution.set_output, 0, ones((length,))))


@pytest.mark.contract("UD-06", "UD-07", "UD-08")
def test_with_padding_buffers_may_be_longer_but_not_shorter(compiled: Compile) -> None:
    total = np.full(8, 9, np.float32)
    with Execution(compiled(addition(FULL, FULL, FULL))) as execution:
        execution.enable_input_and_output_padding(True)
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(0, ones((5,))))
        refused(ResultCode.BAD_DATA, lambda: execution.set_output(0, ones((5,))))
        execution.set_input(0, ones((7,)))
        execution.set_input(1, ones((10,)))
        execution.set_output(0, total)
        execution.compute()
    np.testing.assert_array_equal(total, [2] * 6 + [9] * 2)


@pytest.mark.contract("UD-07", "UD-09", "UD-10")
@pytest.mark.parametrize("shape", ["unknown axis", "unknown rank"])
def test_a_buffer_for_an_output_of_unknown_dimensions_must_be_large_enough(compiled: Compile, shape: str) -> None:
    compilation = compiled(addition(FULL, FULL, SHAPES[shape]))
    # The application has not given the unknown dimensions; the framework may derive them.
    for length in (6, 8):
        total = np.zeros(length, np.float32)
        with Execution(compilation) as execution:
            execution.set_input(0, ones(FULL))
            execution.set_input(1, ones(FULL))
            execution.set_output(0, total)
            execution.compute()
            assert execution.output_operand_dimensions(0) == FULL
            assert execution.output_operand_rank(0) == 2
        np.testing.assert_array_equal(total[:6], 2)
    with Execution(compilation) as execution:
        execution.set_input(0, ones(FULL))
        execution.set_input(1, ones(FULL))
        execution.set_output(0, ones((5,)))
        refused(ResultCode.OUTPUT_INSUFFICIENT_SIZE, execution.compute)
        with pytest.raises(OutputInsufficientSizeError) as caught:
            execution.output_operand_dimensions(0)
        assert caught.value.dimensions == FULL


@pytest.mark.contract("UD-11")
@pytest.mark.parametrize("first", [(0, 3), ()], ids=["unknown axis", "unknown rank"])
@pytest.mark.parametrize("wrong", ["output of the model", "output when executed"])
def test_a_wrong_axis_that_only_the_computation_reveals_fails(compiled: Compile, first: Dimensions, wrong: str) -> None:
    in_model = wrong == "output of the model"
    compilation = compiled(addition(first, first, (4, 3) if in_model else ()))
    with Execution(compilation) as execution:
        execution.set_input(0, ones(FULL), of(FULL))
        execution.set_input(1, ones(FULL), of(FULL))
        execution.set_output(0, np.zeros((4, 3), np.float32), None if in_model else of((4, 3)))
        refused(ResultCode.OP_FAILED, execution.compute)


@pytest.mark.contract("UD-11")
def test_a_temporary_value_with_a_wrong_axis_fails(compiled: Compile) -> None:
    recipe = Recipe()
    values = recipe.input(F32, (0,))
    (none,) = recipe.integers(0)
    total = recipe.operation(OperationType.ADD, [values, values, none], Operand(F32, (5,)))
    square = recipe.operation(OperationType.MUL, [total, total, none], Operand(F32, (0,)))
    with Execution(compiled(recipe.build(square).model)) as execution:
        execution.set_input(0, ones((4,)), of((4,)))
        execution.set_output(0, np.zeros(4, np.float32))
        refused(ResultCode.OP_FAILED, execution.compute)


@pytest.mark.contract("UD-12")
@pytest.mark.parametrize("between", [(0, 3), (0, 0), ()], ids=str)
def test_dimensions_of_temporary_values_are_derived(compiled: Compile, between: Dimensions) -> None:
    recipe = Recipe()
    values = recipe.input(F32, UNKNOWN_AXIS)
    (none,) = recipe.integers(0)
    total = recipe.operation(OperationType.ADD, [values, values, none], Operand(F32, between))
    square = recipe.operation(OperationType.MUL, [total, total, none], Operand(F32, UNKNOWN_AXIS))
    result = np.zeros(FULL, np.float32)
    with Execution(compiled(recipe.build(square).model)) as execution:
        execution.set_input(0, ones(FULL), of(FULL))
        execution.set_output(0, result)
        execution.compute()
    assert np.all(result == 4)


def hashing() -> Model:
    """Return an LSH_PROJECTION whose weight is an optional input of the model, of unknown rank."""
    recipe = Recipe()
    hashes = recipe.constant(F32, [[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]])
    values, weight = recipe.input(I32, (0, 2)), recipe.input(F32)
    signature = recipe.operation(
        OperationType.LSH_PROJECTION, [hashes, values, weight, *recipe.integers(2)], Operand(I32, (6,))
    )
    return recipe.build(signature).model


@pytest.mark.contract("UD-13")
def test_an_omitted_optional_input_may_have_unknown_dimensions(compiled: Compile) -> None:
    compilation = compiled(hashing())
    values = np.array([[12345, 54321], [67890, 9876], [-12345, -67890]], np.int32)
    results = []
    for weight in (None, np.ones(3, np.float32)):
        signature = np.full(6, -1, np.int32)
        with Execution(compilation) as execution:
            execution.set_input(0, values, of_integers((3, 2)))
            execution.set_input(1, weight, None if weight is None else of((3,)))
            execution.set_output(0, signature)
            execution.compute()
        results.append(signature)
    assert set(results[0]) <= {0, 1}
    np.testing.assert_array_equal(results[0], results[1])  # weights that are all 1 change nothing


def of_integers(dimensions: Dimensions) -> Operand:
    return Operand(I32, dimensions)


@pytest.mark.contract("UD-13")
def test_an_omitted_constant_may_have_unknown_dimensions(compiled: Compile) -> None:
    recipe = Recipe()
    hashes = recipe.constant(F32, [[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]])
    values = recipe.input(I32, (3, 2))
    inputs = [hashes, values, recipe.omitted(F32), *recipe.integers(2)]
    signature = np.full(6, -1, np.int32)
    model = recipe.build(recipe.operation(OperationType.LSH_PROJECTION, inputs, Operand(I32, (6,)))).model
    with Execution(compiled(model)) as execution:
        execution.set_input(0, np.array([[12345, 54321], [67890, 9876], [-12345, -67890]], np.int32))
        execution.set_output(0, signature)
        execution.compute()
    assert set(signature) <= {0, 1}


@pytest.mark.contract("UD-14")
def test_inputs_that_cannot_be_broadcast_fail(compiled: Compile) -> None:
    with Execution(compiled(addition(UNKNOWN_RANK, UNKNOWN_RANK, UNKNOWN_RANK))) as execution:
        execution.set_reusable(True)
        execution.set_input(0, ones((2, 3)), of((2, 3)))
        execution.set_input(1, ones((2, 4)), of((2, 4)))
        execution.set_output(0, np.zeros((2, 4), np.float32))
        for compute in both_ways(execution):
            refused(ResultCode.OP_FAILED, compute)


def test_a_scalar_has_no_dimensions(compiled: Compile) -> None:
    recipe = Recipe()
    values = recipe.input(F32, (2, 3))
    rank = recipe.operation(OperationType.RANK, [values], Operand(OperandType.INT32))
    result = np.zeros((), np.int32)
    with Execution(compiled(recipe.build(rank).model)) as execution:
        execution.set_input(0, ones(FULL))
        execution.set_output(0, result)
        execution.compute()
        refused(ResultCode.BAD_DATA, lambda: execution.output_operand_dimensions(0))
        assert execution.output_operand_rank(0) == 0
        refused(ResultCode.BAD_DATA, lambda: execution.output_operand_rank(1))
    assert result == 2


def test_unusable_buffers_are_refused(compiled: Compile) -> None:
    with Execution(compiled(addition(FULL, FULL, FULL))) as execution:
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(0, ones((3, 2)).T), "contiguous")
        refused(ResultCode.BAD_DATA, lambda: execution.set_output(0, bytes(24)), "not writable")
        refused(ResultCode.UNEXPECTED_NULL, lambda: execution.set_output(0, None))
        refused(ResultCode.BAD_DATA, lambda: execution.set_input(2, ones(FULL)), "input 2 of 2")
        execution.set_input(0, ones(FULL).tobytes())
        execution.set_input(1, bytearray(ones(FULL).tobytes()))
        total = bytearray(24)
        execution.set_output(0, total)
        execution.compute()
    assert np.all(np.frombuffer(total, np.float32) == 2)
