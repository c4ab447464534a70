from __future__ import annotations

import pytest

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from tests.support.agreement import single
from tests.support.ethos_u import assert_limit, is_taken

BILINEAR, NEAREST = OperationType.RESIZE_BILINEAR, OperationType.RESIZE_NEAREST_NEIGHBOR
BOTH = pytest.mark.parametrize("operation", [BILINEAR, NEAREST])


def resized(
    operation: OperationType,
    given: tuple[int, int],
    made: tuple[int, int],
    corners: bool = False,
    centres: bool = False,
) -> ResolvedModel:
    parameters = [made[1], made[0], False, corners, centres]
    return single(operation, Q8A, [(1, *given, 2)], parameters)


@BOTH
@pytest.mark.parametrize("made", [(4, 6), (8, 12), (16, 24), (32, 48)])
def test_factors(operation: OperationType, made: tuple[int, int]) -> None:
    assert is_taken(resized(operation, (4, 6), made))


@BOTH
def test_other_factors(operation: OperationType) -> None:
    allowed = "the same factor of 1, 2, 4 or 8 for height and width"
    outside = resized(operation, (4, 6), (12, 18))
    assert_limit(resized(operation, (4, 6), (8, 12)), outside, "SHAPE", "4 x 6 resized to 12 x 18", allowed)
    outside = resized(operation, (4, 6), (8, 24))
    assert_limit(resized(operation, (1, 6), (1, 24)), outside, "SHAPE", "4 x 6 resized to 8 x 24", allowed)


@BOTH
def test_one_pixel_becomes_any_size(operation: OperationType) -> None:
    assert is_taken(resized(operation, (1, 1), (3, 5)))


@BOTH
def test_corners_are_aligned(operation: OperationType) -> None:
    allowed = "the same factor of 1, 2, 4 or 8 for height and width, both less 1"
    inside, outside = resized(operation, (4, 6), (7, 11), corners=True), resized(operation, (4, 6), (8, 12), True)
    assert_limit(inside, outside, "SHAPE", "4 x 6 resized to 8 x 12", allowed)


def test_centres_only_at_twice_the_size() -> None:
    allowed = "2 times the height and width, if half_pixel_centers is true"
    inside, outside = (resized(BILINEAR, (4, 6), made, centres=True) for made in ((8, 12), (16, 24)))
    assert_limit(inside, outside, "SHAPE", "4 x 6 resized to 16 x 24", allowed)
    assert is_taken(resized(NEAREST, (4, 6), (16, 24), centres=True))
