"""IF on cpu_acc: both branches in one session, beside the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.operations.operand_types import F16, F32, Q8A, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal.types import Operand, OperandType, OperationType
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from tests.support.agreement import random
from tests.support.models import run_on
from tests.support.subgraphs import B8, I32, INT32, Graph, Program, nested

QUANTIZATION = {Q8A: (0.25, 100), Q8AS: (0.25, 3)}
IMAGE = (1, 4, 4, 2)
Then = Callable[[Graph, int, Operand], int]


def doubled(graph: Graph, x: int, like: Operand) -> int:
    return graph.operation(OperationType.ADD, [x, x, graph.constant(0, INT32)], like)


def pooled(graph: Graph, x: int, like: Operand) -> int:
    """A pool, which has images with channels first within."""
    same_padding, strides, filter_size, no_activation = [1], [1, 1], [3, 3], [0]
    numbers = [*same_padding, *strides, *filter_size, *no_activation]
    return graph.operation(OperationType.MAX_POOL_2D, [x, *(graph.constant(each, INT32) for each in numbers)], like)


def chosen(code: OperandType, then: Then) -> ResolvedModel:
    """A model of ``y = condition ? then(2x) : relu(2x)``, with ``y`` and ``2x + y`` as its outputs."""
    scale, zero_point = QUANTIZATION.get(code, (0.0, 0))
    like = Operand(code, IMAGE, scale=scale, zero_point=zero_point)
    program = Program()
    main, first, other = (program.graph() for _ in range(3))
    first.returns(then(first, first.input(IMAGE, code, scale, zero_point), like))
    other.returns(other.operation(OperationType.RELU, [other.input(IMAGE, code, scale, zero_point)], like))
    condition = main.input(code=B8)
    x = doubled(main, main.input(IMAGE, code, scale, zero_point), like)
    y = main.operation(OperationType.IF, [condition, main.reference(first), main.reference(other), x], like)
    main.returns(y, main.operation(OperationType.ADD, [x, y, main.constant(0, INT32)], like))
    return program.resolved()


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("then", [doubled, pooled])
@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
def test_the_branch_that_is_chosen_is_computed(code: OperandType, then: Then, condition: bool) -> None:
    model, x = chosen(code, then), random(code, IMAGE)
    given = np.array([condition], np.uint8), x
    assert CpuAcc(DriverOptions()).supported_operations(model) == [SUPPORTED] * 3
    for found, expected in zip(
        run_on(CpuAcc(DriverOptions()), model, *given), run_on(CpuRef(DriverOptions()), model, *given), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_branch_within_a_branch_is_computed() -> None:
    model = nested(3).resolved()
    (found,) = run_on(CpuAcc(DriverOptions()), model, np.array([21], np.int32))
    assert found.tolist() == [42]


def test_branches_that_grow_beyond_a_limit_are_refused() -> None:
    (answer,) = CpuAcc(DriverOptions()).supported_operations(nested(40).resolved())
    assert answer == Unsupported("NO_IMPL", "branches of more than 10000 operations in all", "fewer")


def test_what_a_branch_has_that_is_not_supported_is_told() -> None:
    program = Program()
    main, first, other = (program.graph() for _ in range(3))
    found = [first.input(), first.constant([[5]])]
    first.returns(first.operation(OperationType.EMBEDDING_LOOKUP, found, Operand(I32, (1, 1))))
    other.returns(other.operation(OperationType.RESHAPE, [other.input(), other.constant([1, 1])], Operand(I32, (1, 1))))
    inputs = [main.input(code=B8), main.reference(first), main.reference(other), main.input()]
    main.returns(main.operation(OperationType.IF, inputs, Operand(I32, (1, 1))))
    (answer,) = CpuAcc(DriverOptions()).supported_operations(program.resolved())
    assert isinstance(answer, Unsupported)
    assert answer.got == "EMBEDDING_LOOKUP in the then branch: EMBEDDING_LOOKUP"
