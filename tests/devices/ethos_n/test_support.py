from __future__ import annotations

import pytest

from nnhal.operations.operand_types import F32, Q8A
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal_devices.ethos_n.support import supported_operations
from tests.support.agreement import like, single
from tests.support.models import Recipe
from tests.support.npu import TYPES, assert_limit, convolution_at_run_time, is_taken, refusal

BOTH_TYPES = pytest.mark.parametrize("code", TYPES)
TYPE_NAMES = "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED"


def relu(code: OperandType, *dimensions: int) -> ResolvedModel:
    return single(OperationType.RELU, code, [dimensions])


@BOTH_TYPES
def test_activations_are_of_8_bits(code: OperandType) -> None:
    assert_limit(relu(code, 1, 4), relu(F32, 1, 4), "DTYPE", "input 0 of TENSOR_FLOAT32", TYPE_NAMES)


@BOTH_TYPES
@pytest.mark.parametrize("dimensions", [(32_768,), (4096, 5), (4096, 4096, 5), (1, 4096, 4096, 255)])
def test_tensors_of_any_rank_up_to_4(code: OperandType, dimensions: tuple[int, ...]) -> None:
    assert is_taken(relu(code, *dimensions))


@BOTH_TYPES
@pytest.mark.parametrize(
    ("dimensions", "allowed"),
    [
        ((2, 4, 4, 3), "batch 1"),
        ((1, 4097, 4, 3), "height and width of at most 4096"),
        ((1, 4, 4097, 3), "height and width of at most 4096"),
        ((4097, 3), "height and width of at most 4096"),
        ((1, 4, 4, 32_769), "at most 32768 channels"),
        ((32_769,), "at most 32768 channels"),
    ],
)
def test_tensors_that_are_too_large(code: OperandType, dimensions: tuple[int, ...], allowed: str) -> None:
    reason = refusal(relu(code, *dimensions))
    assert (reason.code, reason.allowed) == ("SHAPE", allowed)
    assert reason.got == f"input 0 of {list(dimensions)}"


@BOTH_TYPES
def test_an_output_has_the_same_limits(code: OperandType) -> None:
    def reshape(*shape: int) -> ResolvedModel:
        return single(OperationType.RESHAPE, code, [(2, 4)], [shape])

    assert_limit(reshape(1, 2, 2, 2), reshape(2, 2, 2, 1), "SHAPE", "output 0 of [2, 2, 2, 1]", "batch 1")
    assert_limit(reshape(2, 2, 2), reshape(1, 1, 2, 2, 2), "RANK", "output 0 of rank 5", "rank 1 to 4")


@BOTH_TYPES
def test_dimensions_that_are_known_beforehand(code: OperandType) -> None:
    allowed = "dimensions that are known beforehand"
    assert_limit(relu(code, 1, 4), relu(code, 0, 4), "DYN_SHAPE", "input 0 of [?, 4]", allowed)
    assert_limit(relu(code, 1, 4), relu(code), "DYN_SHAPE", "input 0 of unknown rank", allowed)


@BOTH_TYPES
@pytest.mark.parametrize("index", [1, 2])
def test_weights_and_bias_are_constants(code: OperandType, index: int) -> None:
    reason = refusal(convolution_at_run_time(code, index))
    assert (reason.code, reason.allowed) == ("CONSTANT", "a constant")
    assert reason.got == f"input {index} that is computed or fed at run time"


@pytest.mark.parametrize(
    ("operation", "model"),
    [
        ("SOFTMAX", single(OperationType.SOFTMAX, Q8A, [(1, 4)], [1.0], Operand(Q8A, (), 1 / 256, 0))),
        ("QUANTIZE", single(OperationType.QUANTIZE, F32, [(1, 4)], [], like(Q8A))),
        ("DEQUANTIZE", single(OperationType.DEQUANTIZE, Q8A, [(1, 4)], [], like(F32))),
        ("SQRT", single(OperationType.SQRT, F32, [(1, 4)])),
    ],
)
def test_operations_that_the_npu_does_not_have(operation: str, model: ResolvedModel) -> None:
    reason = refusal(model)
    assert (reason.code, reason.got) == ("OP", operation)
    assert "README" in reason.allowed


def test_an_operation_of_an_extension() -> None:
    code = (1 << 16) | 7
    given, result = Operand(Q8A, (2,), 1.0, lifetime=OperandLifeTime.SUBGRAPH_INPUT), Operand(Q8A, (2,), 1.0)
    model = Model(Subgraph((given, result), (Operation(code, (0,), (1,)),), (0,), (1,)))
    reason = refusal(ResolvedModel(model, inline_constants(model)))
    assert (reason.code, reason.got) == ("OP", "operation 0x10007 of an extension")


def test_an_operation_that_cannot_be_valid() -> None:
    reason = refusal(single(OperationType.ADD, Q8A, [(2,), (3,)], [0]))
    assert reason.code == "OP"
    assert "do not broadcast" in reason.got


def test_what_follows_a_declined_operation_is_judged_on_its_own() -> None:
    recipe = Recipe()
    floats = recipe.input(F32, (1, 4))
    first = recipe.operation(OperationType.QUANTIZE, [floats], like(Q8A))
    answers = supported_operations(recipe.build(recipe.operation(OperationType.RELU, [first], like(Q8A))))
    assert isinstance(answers[0], Unsupported)
    assert answers[1] == SUPPORTED
