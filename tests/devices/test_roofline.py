from __future__ import annotations

import pytest

from nnhal.operations.operand_types import F32, Q8A
from nnhal.types import Operand, OperandType, OperationType
from nnhal.validation.control_flow import MAX_DEPTH
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_devices.cpu_ref.performance import ROOFLINE as REFERENCE
from nnhal_devices.ethos_u.performance import operation_ns
from nnhal_devices.roofline import Roofline, work_of
from tests.support.agreement import like
from tests.support.models import Recipe
from tests.support.subgraphs import nested


def test_an_operation_on_tensors_of_unknown_rank_has_some_work() -> None:
    recipe = Recipe()
    flags = [recipe.constant(OperandType.BOOL, False) for _ in range(2)]
    inputs = [recipe.input(F32), recipe.input(F32), *flags]
    (work,) = work_of(recipe.build(recipe.operation(OperationType.BATCH_MATMUL, inputs, like(F32))))
    assert work.macs == 1


def test_a_subgraph_that_is_referred_to_twice_at_every_level_is_examined_once() -> None:
    (work,) = work_of(nested(MAX_DEPTH).resolved())  # 2 ** 64 references
    (innermost,) = work_of(nested(1).resolved())
    assert work == innermost


@pytest.mark.parametrize("kind", [OperationType.ADD, OperationType.MUL])
def test_arithmetic_on_8_bit_values_takes_the_reference_longer_than_the_npus(kind: OperationType) -> None:
    """Else a plan would fetch the values of each residual connection to the CPU."""
    recipe = Recipe()
    images = [recipe.input(Q8A, (1, 56, 56, 64), 0.5, 128) for _ in range(2)]
    result = recipe.operation(kind, [*images, *recipe.integers(0)], Operand(Q8A, (), 0.5, 128))
    model = recipe.build(result)
    (reference,) = REFERENCE.operation_ns(model)
    (floats,) = Roofline(15_000, 7, 2, {}).operation_ns(model)
    assert reference > 4 * floats
    assert operation_ns(model, system_for("u55-128"))[0] < reference
