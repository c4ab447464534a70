from __future__ import annotations

import pytest
from onnx import helper

from nnhal.operations.operand_types import B8, F16, F32, I32, Q8A, Q8AS, Q8C
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import ChannelQuant, OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions
from nnhal_devices.gpu_acc.support import supported_operations
from nnhal_frontends.onnx import import_onnx
from tests.support.agreement import like, single
from tests.support.models import Recipe
from tests.support.onnx_models import onnx_model, resolved

ARITHMETIC = CpuAcc(DriverOptions())


def _answer(model: ResolvedModel) -> Support:
    (answer,) = supported_operations(model, ARITHMETIC)
    return answer


def _code(model: ResolvedModel) -> str:
    answer = _answer(model)
    assert isinstance(answer, Unsupported)
    assert answer.got
    assert answer.allowed
    return answer.code


@pytest.mark.parametrize("code", [F32, F16])
def test_it_takes_floats(code: OperandType) -> None:
    assert _answer(single(OperationType.ADD, code, [(2, 3), (3,)], [0])) == SUPPORTED


@pytest.mark.parametrize("code", [Q8A, Q8AS, I32])
def test_it_computes_with_nothing_else(code: OperandType) -> None:
    assert _code(single(OperationType.ADD, code, [(2, 3), (3,)], [0])) == "DTYPE"


def test_a_refusal_says_what_to_do() -> None:
    answer = _answer(single(OperationType.RELU, Q8A, [(2,)]))
    assert isinstance(answer, Unsupported)
    assert answer.got == "TENSOR_QUANT8_ASYMM"
    assert "TENSOR_FLOAT16" in answer.allowed
    assert answer.hint == "dequantise it first"


def test_it_takes_no_filters_that_are_quantised_by_channel() -> None:
    recipe = Recipe()
    filters = recipe.constant(Q8C, [[1, 2], [3, 4]], channels=ChannelQuant((0.5, 0.25), 0))
    assert _code(recipe.build(recipe.operation(OperationType.DEQUANTIZE, [filters], like(F32)))) == "DTYPE"


def test_it_makes_no_integers_of_floats() -> None:
    assert _code(single(OperationType.CAST, F32, [(2,)], [], like(I32))) == "DTYPE"


@pytest.mark.parametrize("made", [Q8A, Q8AS])
def test_values_are_quantised_and_dequantised_at_its_border(made: OperandType) -> None:
    assert _answer(single(OperationType.QUANTIZE, F32, [(2,)], [], like(made))) == SUPPORTED
    assert _answer(single(OperationType.DEQUANTIZE, made, [(2,)], [], like(F32))) == SUPPORTED


def test_integers_and_booleans_may_be_indexes_and_conditions() -> None:
    assert _answer(single(OperationType.TRANSPOSE, F32, [(2, 3)], [[1, 0]])) == SUPPORTED
    assert _answer(single(OperationType.ARGMAX, F32, [(2, 3)], [1], like(I32))) == SUPPORTED
    assert _answer(single(OperationType.LESS, F32, [(2,), (2,)], [], like(B8))) == SUPPORTED
    recipe = Recipe()
    choice, values = recipe.input(B8, (2,)), recipe.input(F32, (2,))
    assert _answer(recipe.build(recipe.operation(OperationType.SELECT, [choice, values, values], like(F32)))) == (
        SUPPORTED
    )


@pytest.mark.parametrize(("operation", "code"), [(OperationType.LOGICAL_NOT, B8), (OperationType.NEG, I32)])
def test_integers_and_booleans_are_not_computed_with(operation: OperationType, code: OperandType) -> None:
    assert _code(single(operation, code, [(2,)], [])) == "DTYPE"


def test_four_axes_are_the_most() -> None:
    assert _answer(single(OperationType.ABS, F32, [(1, 1, 1, 2)], [])) == SUPPORTED
    answer = _answer(single(OperationType.ABS, F32, [(1, 1, 1, 1, 2)], []))
    assert answer == Unsupported("RANK", "TENSOR_FLOAT32 of [1, 1, 1, 1, 2]", "up to 4 axes", "reshape it")


def test_axes_count_also_where_only_the_operation_tells_how_many_there_are() -> None:
    assert _code(single(OperationType.EXPAND_DIMS, F32, [(1, 1, 1, 2)], [0])) == "RANK"


def test_what_its_arithmetic_declines_it_declines_with_the_same_words() -> None:
    for model in (
        single(OperationType.DIV, I32, [(2,), (2,)], [0]),
        single(OperationType.EQUAL, F16, [(2,), (2,)], [], like(B8)),
        single(OperationType.TOPK_V2, F32, [(4,)], [2], like(F32), like(I32)),
    ):
        (expected,) = ARITHMETIC.supported_operations(model)
        assert isinstance(expected, Unsupported)
        assert _answer(model) == expected


def test_operations_of_extensions_are_declined() -> None:
    nodes = [helper.make_node("Erf", ["x"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    model = resolved(import_onnx(onnx_model(nodes, {"x": (2,)}, ["y"])).model)
    assert CpuAcc(DriverOptions()).supported_operations(model) == [SUPPORTED] * 2
    first, second = supported_operations(model, ARITHMETIC)
    assert isinstance(first, Unsupported)
    assert (first.code, first.allowed) == ("OP", "operations of the base set")
    assert second == SUPPORTED
