from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.operations.boxes import box_type
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, boolean, dimensions_of, level_of, open_tensor, output

CODE = OperationType.HEATMAP_MAX_KEYPOINT


def inputs(main: OperandType, heatmaps: Dimensions, channels_first: bool = False) -> list[Given]:
    quantized = main in (Q8A, Q8AS)
    return [
        open_tensor(main, heatmaps, 0.01 * quantized),
        open_tensor(box_type(main), (6, 4), 0.125 * quantized),
        boolean(channels_first),
    ]


def outputs(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [output(main, (6, 17), 0.5 * quantized), output(box_type(main), (6, 17, 2), 0.125 * quantized)]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_types(main: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(main, (6, 4, 4, 17)), *outputs(main)) == level


@pytest.mark.parametrize(
    ("heatmaps", "channels_first"), [((0, 4, 4, 17), False), ((6, 0, 0, 17), False), ((6, 17, 4, 0), True)]
)
def test_there_is_a_point_for_each_box_and_keypoint(heatmaps: Dimensions, channels_first: bool) -> None:
    assert dimensions_of(CODE, inputs(F32, heatmaps, channels_first), *outputs(F32)) == ((6, 17), (6, 17, 2))


@pytest.mark.parametrize("heatmaps", [(6, 4, 5, 17), (6, 1, 1, 17), (5, 4, 4, 17)])
def test_heatmaps_are_squares_of_at_least_two_cells_one_for_each_box(heatmaps: Dimensions) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(CODE, inputs(F32, heatmaps), *outputs(F32))
