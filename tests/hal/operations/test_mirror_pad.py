from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import Given, dimensions_of, integers, level_of, open_tensor, output, tensor

MIRROR_PAD = OperationType.MIRROR_PAD


def given(paddings: list[list[int]], mode: int) -> list[Given]:
    return [open_tensor(F32, (4, 3)), tensor(I32, paddings), *integers(mode)]


def test_a_reflection_is_as_long_as_the_axis_at_most_and_without_the_edge_one_less() -> None:
    assert dimensions_of(MIRROR_PAD, given([[3, 0], [0, 2]], 0), output(F32)) == ((7, 5),)
    assert dimensions_of(MIRROR_PAD, given([[4, 4], [0, 3]], 1), output(F32)) == ((12, 6),)
    with pytest.raises(HalError, match=r"\(0, 3\) on axis 1, expected 0 to 2"):
        dimensions_of(MIRROR_PAD, given([[0, 0], [0, 3]], 0), output(F32))


@pytest.mark.parametrize(
    ("paddings", "mode", "message"),
    [
        ([[0, -1], [0, 0]], 1, "on axis 0"),
        ([[0, 0]], 1, "paddings have dimensions"),
        ([[0, 0], [0, 0]], 2, "mode 2"),
    ],
)
def test_other_paddings_and_modes_are_refused(paddings: list[list[int]], mode: int, message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(MIRROR_PAD, given(paddings, mode), output(F32))


def test_the_output_has_the_input_s_rank_and_quantisation() -> None:
    inputs = [open_tensor(Q8A, (4,), 0.5), tensor(I32, [[1, 1]]), *integers(0)]
    assert level_of(MIRROR_PAD, inputs, output(Q8A, (6,), 0.5)) == 7
    with pytest.raises(HalError, match="rank 2, expected 1"):
        level_of(MIRROR_PAD, inputs, output(Q8A, (6, 1), 0.5))
    with pytest.raises(HalError, match="expected equal ones"):
        level_of(MIRROR_PAD, inputs, output(Q8A, (6,), 0.25))


def test_unknown_lengths_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(MIRROR_PAD, [open_tensor(F32, (0,)), tensor(I32, [[1, 1]]), *integers(0)], output(F32))
