from __future__ import annotations

import pytest

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.support.parts import groups_of, part_of
from nnhal.types import Operand, OperationType
from tests.support.agreement import like
from tests.support.models import Recipe


def diamond() -> ResolvedModel:
    """Operation 0 is read by 1 and 2, both of which are read by 3; operation 4 is alone."""
    recipe = Recipe()
    first, other = (recipe.input(Q8A, (4,), 0.05, 117) for _ in range(2))

    def clamped(given: int) -> int:
        return recipe.operation(OperationType.RELU, [given], like(Q8A))

    start = clamped(first)
    one, two = clamped(start), clamped(start)
    joined = recipe.operation(OperationType.ADD, [one, two, *recipe.integers(0)], like(Q8A))
    return recipe.build(joined, clamped(other))


@pytest.mark.parametrize(
    ("failed", "groups"),
    [
        ([], [[0, 1, 2, 3], [4]]),
        ([0], [[1, 2, 3], [4]]),
        ([1], [[0, 2], [3], [4]]),
        ([1, 2], [[0], [3], [4]]),
        ([4], [[0, 1, 2, 3]]),
        ([0, 1, 2, 3, 4], []),
    ],
)
def test_no_group_waits_for_what_waits_for_it(failed: list[int], groups: list[list[int]]) -> None:
    assert groups_of(diamond(), [number in failed for number in range(5)]) == groups


def test_what_runs_together_waits_together() -> None:
    recipe = Recipe()
    fed = recipe.input(Q8A, (4,), 0.05, 117)
    first, second, third = (recipe.operation(OperationType.RELU, [fed], like(Q8A)) for _ in range(3))
    later = recipe.operation(OperationType.RELU, [first], like(Q8A))
    joined = recipe.operation(OperationType.ADD, [later, second, *recipe.integers(0)], like(Q8A))
    model = recipe.build(joined, third)
    failed = [True, False, False, False, False]
    assert groups_of(model, failed) == [[1], [2], [3, 4]]
    assert groups_of(model, failed, [(1, 4)]) == [[1, 3, 4], [2]]
    assert groups_of(model, failed, [(2, 3)]) == [[1], [2, 3, 4]]


def test_a_part_takes_what_others_compute_and_gives_what_others_read() -> None:
    recipe = Recipe()
    values = [recipe.input(Q8A, (1, 4), 0.5, 128)]
    for _ in range(3):
        values.append(recipe.operation(OperationType.RELU, values[-1:], Operand(Q8A, (), 0.5, 128)))
    main = part_of(recipe.build(values[-1]), [1]).model.main
    assert (main.input_indexes, main.output_indexes) == ((values[1],), (values[2],))
    assert len(main.operations) == 1
    assert main.operands[values[2]].dimensions == (1, 4)
