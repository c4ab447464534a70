from __future__ import annotations

from typing import Any

import pytest

from nnhal.operations.operand_types import F16, F32, I32, Q8A
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_devices.cpu_acc.support import supported_operations
from tests.support.agreement import like, single
from tests.support.models import Recipe


def _reason(model: ResolvedModel) -> Unsupported:
    (answer,) = supported_operations(model)
    assert isinstance(answer, Unsupported)
    return answer


def test_an_operation_without_a_lowering() -> None:
    reason = _reason(single(OperationType.TOPK_V2, F32, [(2, 3)], [1], like(F32), like(I32)))
    assert (reason.code, reason.got) == ("NO_IMPL", "TOPK_V2")


def test_an_operation_of_an_extension() -> None:
    code = (1 << 16) | 7
    given, result = Operand(F32, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT), Operand(F32, (2,))
    model = Model(Subgraph((given, result), (Operation(code, (0,), (1,)),), (0,), (1,)))
    reason = _reason(ResolvedModel(model, inline_constants(model)))
    assert (reason.code, reason.got) == ("OP", "operation 0x10007 of an extension")


def test_a_type_that_has_no_kernel() -> None:
    reason = _reason(single(OperationType.FLOOR, F16, [(2,)]))
    assert reason == Unsupported("DTYPE", "TENSOR_FLOAT16", "TENSOR_FLOAT32")


def test_integers_are_not_divided_since_a_zero_would_end_the_process() -> None:
    assert _reason(single(OperationType.DIV, I32, [(2,), (2,)], [0])).code == "DTYPE"


def test_a_parameter_that_is_a_variable() -> None:
    recipe = Recipe()
    inputs = [recipe.input(F32, (2, 3)), recipe.input(I32, (1,))]
    reason = _reason(recipe.build(recipe.operation(OperationType.RESHAPE, inputs, like(F32, (6,)))))
    assert (reason.code, reason.allowed) == ("CONSTANT", "a constant")
    assert "input 1" in reason.got


def test_a_tensor_of_unknown_rank() -> None:
    assert _reason(single(OperationType.RELU, F32, [()])).code == "DYN_SHAPE"


def test_padding_that_depends_on_an_open_axis() -> None:
    same, valid = 1, 2
    open_images = [(1, 0, 8, 3)]
    assert _reason(single(OperationType.MAX_POOL_2D, F32, open_images, [same, 1, 1, 2, 2, 0])).code == "DYN_SHAPE"
    assert supported_operations(single(OperationType.MAX_POOL_2D, F32, open_images, [valid, 1, 1, 2, 2, 0])) == [
        SUPPORTED
    ]


def test_a_window_that_may_lie_in_padding_only() -> None:
    parameters = [0, 2, 0, 0, 3, 1, 2, 1, 0]
    assert _reason(single(OperationType.MAX_POOL_2D, F32, [(1, 4, 5, 2)], parameters)).code == "KERNEL"


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        (OperationType.SLICE, [[1, 0], [0, 2]]),
        (OperationType.TILE, [[0, 1]]),
    ],
)
def test_indices_that_onnx_takes_otherwise(operation: OperationType, parameters: list[Any]) -> None:
    assert _reason(single(operation, F32, [(3, 2)], parameters)).code == "SHAPE"


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.0, 0.5), (-1.0, 0.5), (float("nan"), 0.5), (0.5, 0.0), (0.5, float("inf"))]
)
def test_a_local_response_normalization_that_onnx_runtime_refuses(alpha: float, beta: float) -> None:
    parameters = [2, 9.0, alpha, beta, -1]
    assert _reason(single(OperationType.LOCAL_RESPONSE_NORMALIZATION, F32, [(2, 9, 4, 7)], parameters)).code == "KERNEL"


@pytest.mark.parametrize("epsilon", [-1.0, float("nan")])
def test_an_instance_normalization_with_the_root_of_a_negative_number(epsilon: float) -> None:
    parameters = [1.0, 0.0, epsilon, False]
    assert _reason(single(OperationType.INSTANCE_NORMALIZATION, F32, [(2, 5, 4, 3)], parameters)).code == "KERNEL"


def test_a_radius_without_limit_over_an_unknown_number_of_channels() -> None:
    parameters = [2**31 - 1, 9.0, 0.5, 0.5, -1]
    model = single(OperationType.LOCAL_RESPONSE_NORMALIZATION, F32, [(2, 9, 4, 0)], parameters)
    assert _reason(model).code == "DYN_SHAPE"


def test_an_operation_that_cannot_be_valid() -> None:
    reason = _reason(single(OperationType.ADD, F32, [(2,), (3,)], [0], like(F32, (3,))))
    assert reason.code == "OP"
    assert "do not broadcast" in reason.got


def test_what_follows_a_declined_operation_is_judged_on_its_own() -> None:
    recipe = Recipe()
    given = recipe.input(Q8A, (2, 3), like(Q8A).scale, like(Q8A).zero_point)
    values = recipe.operation(OperationType.TOPK_V2, [given, *recipe.integers(1)], like(Q8A), like(I32))
    answers = supported_operations(recipe.build(recipe.operation(OperationType.RELU, [values], like(Q8A))))
    assert isinstance(answers[0], Unsupported)
    assert answers[1] == SUPPORTED
