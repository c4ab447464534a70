from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_single_agrees


@pytest.mark.parametrize("code", [F32, F16, Q8A, Q8AS])
@pytest.mark.parametrize("places", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("width", "height", "channels_first"), [(9, 3, False), (2, 11, True), (1, 1, False)])
def test_pixels_are_interpolated(
    width: int, height: int, channels_first: bool, places: tuple[bool, bool], code: OperandType
) -> None:
    parameters = [width, height, channels_first, *places]
    assert_single_agrees(OperationType.RESIZE_BILINEAR, code, [(2, 5, 6, 4)], parameters)
