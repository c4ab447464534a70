from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, Q8A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import boolean, dimensions_of, integers, level_of, open_tensor, output


@pytest.mark.parametrize(
    ("code", "dimensions", "channels_first", "expected"),
    [
        (OperationType.DEPTH_TO_SPACE, (0, 2, 3, 8), False, (0, 4, 6, 2)),
        (OperationType.DEPTH_TO_SPACE, (1, 8, 2, 3), True, (1, 2, 4, 6)),
        (OperationType.SPACE_TO_DEPTH, (1, 4, 0, 2), False, (1, 2, 0, 8)),
        (OperationType.SPACE_TO_DEPTH, (1, 2, 4, 6), True, (1, 8, 2, 3)),
    ],
)
def test_blocks_of_2_in_either_layout(
    code: OperationType, dimensions: Dimensions, channels_first: bool, expected: Dimensions
) -> None:
    inputs = [open_tensor(F32, dimensions), *integers(2), boolean(channels_first)]
    assert level_of(code, inputs, output(F32, expected)) == 3
    assert level_of(code, inputs[:2], output(F32, expected)) == 1
    assert dimensions_of(code, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("code", [OperationType.DEPTH_TO_SPACE, OperationType.SPACE_TO_DEPTH])
def test_blocks_that_do_not_fit_are_refused(code: OperationType) -> None:
    for block in (0, 3):
        with pytest.raises(HalError, match=f"block size {block}|multiple"):
            dimensions_of(code, [open_tensor(F32, (1, 4, 4, 8)), *integers(block)], output(F32))


def test_the_output_keeps_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.25"):
        dimensions_of(
            OperationType.DEPTH_TO_SPACE, [open_tensor(Q8A, (1, 1, 1, 4), 0.5), *integers(2)], output(Q8A, (), 0.25)
        )
