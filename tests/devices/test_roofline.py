from __future__ import annotations

from nnhal.operations._types import F32
from nnhal.types import OperandType, OperationType
from nnhal.validation.control_flow import MAX_DEPTH
from nnhal_devices.roofline import work_of
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
