from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import F32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.rules import RULES
from tests.support.agreement import QUANTIZATION, like, single
from tests.support.ethos_u import EACH_EXAMPLE, assert_limit, examples, is_taken, needs_networks, network, refusal
from tests.support.models import Recipe
from tests.support.npu import TYPES, convolution_at_run_time

BOTH_TYPES = pytest.mark.parametrize("code", TYPES)


def relu(code: OperandType, *dimensions: int) -> ResolvedModel:
    return single(OperationType.RELU, code, [dimensions])


@pytest.mark.parametrize(("name", "code"), EACH_EXAMPLE)
def test_every_example_is_taken_and_has_a_graph(name: str, code: OperandType) -> None:
    model = examples(code)[name]
    assert is_taken(model)
    assert build_graph(model).tensor_of


def test_there_is_an_example_of_each_operation() -> None:
    assert {name.partition(" ")[0] for name in examples(Q8AS)} == {operation.name for operation in RULES}


@BOTH_TYPES
def test_activations_are_of_8_bits(code: OperandType) -> None:
    allowed = "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED"
    assert_limit(relu(code, 1, 4), relu(F32, 1, 4), "DTYPE", "input 0 of TENSOR_FLOAT32", allowed)


@BOTH_TYPES
@pytest.mark.parametrize(
    ("inside", "outside", "allowed"),
    [
        ((1, 4, 4, 3), (2, 4, 4, 3), "batch 1"),
        ((1, 65_535, 1, 3), (1, 65_536, 1, 3), "height and width of at most 65535"),
        ((65_535, 3), (65_536, 3), "height and width of at most 65535"),
        ((65_535,), (65_536,), "at most 65535 channels"),
    ],
)
def test_extents(code: OperandType, inside: tuple[int, ...], outside: tuple[int, ...], allowed: str) -> None:
    assert_limit(relu(code, *inside), relu(code, *outside), "SHAPE", f"input 0 of {list(outside)}", allowed)


def test_dimensions_that_are_known_beforehand() -> None:
    allowed = "dimensions that are known beforehand"
    assert_limit(relu(Q8A, 1, 4), relu(Q8A, 0, 4), "DYN_SHAPE", "input 0 of [?, 4]", allowed)


def test_weights_are_constants() -> None:
    reason = refusal(convolution_at_run_time(Q8A))
    assert (reason.code, reason.got) == ("CONSTANT", "input 1 that is computed or fed at run time")


@pytest.mark.parametrize("inputs", [(0,), (0, 0)])
def test_an_operation_on_constants_only(inputs: tuple[int, ...]) -> None:
    recipe = Recipe()
    constant = recipe.constant(Q8AS, np.zeros(4), *QUANTIZATION[Q8AS])
    given = [constant for _ in inputs]
    operation = OperationType.RELU if len(inputs) == 1 else OperationType.MAXIMUM
    reason = refusal(recipe.build(recipe.operation(operation, given, like(Q8AS))))
    assert (reason.code, reason.allowed) == ("CONSTANT", "an input that is computed or fed")


@pytest.mark.parametrize(
    ("operation", "model"),
    [
        ("QUANTIZE", single(OperationType.QUANTIZE, F32, [(1, 4)], [], like(Q8A))),
        ("DEQUANTIZE", single(OperationType.DEQUANTIZE, Q8A, [(1, 4)], [], like(F32))),
        ("ARGMAX", single(OperationType.ARGMAX, Q8A, [(1, 4)], [1], Operand(OperandType.TENSOR_INT32))),
    ],
)
def test_operations_that_the_npu_does_not_have(operation: str, model: ResolvedModel) -> None:
    reason = refusal(model)
    assert (reason.code, reason.got) == ("OP", operation)
    assert reason.allowed == f"one of the {len(RULES)} operations that ethos_u's README lists"


@needs_networks
def test_a_whole_network_is_taken() -> None:
    assert is_taken(network("mobilenet_v2_1.0_224"))


def test_extrema_are_of_one_quantisation() -> None:
    def maximum(scale: float) -> ResolvedModel:
        return single(OperationType.MAXIMUM, Q8A, [(4,), (4,)], [], like(Q8A, scale=scale))

    got, allowed = "input 0 of scale and zero point (0.05, 117)", "those of the output, (0.5, 117)"
    assert_limit(maximum(0.05), maximum(0.5), "QUANT", got, allowed)


def test_softmax_is_along_the_channels() -> None:
    def softmax(axis: int) -> ResolvedModel:
        return single(OperationType.SOFTMAX, Q8A, [(1, 3, 3, 4)], [1.0, axis], Operand(Q8A, (), 1 / 256, 0))

    assert_limit(softmax(-1), softmax(2), "KERNEL", "axis 2 of 4", "axis 3: the channels")
