from __future__ import annotations

import pytest

from nnhal.operations._types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_devices.npu_support.groups import groups_of
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
