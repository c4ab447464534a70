from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q16A
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, dimensions_of, level_of, open_tensor, output

CODE = OperationType.AXIS_ALIGNED_BBOX_TRANSFORM


def inputs(boxes: OperandType, deltas: OperandType, rois: Dimensions, scale: float = 0.125) -> list[Given]:
    eighths = scale if boxes == Q16A else 0.0
    return [
        open_tensor(boxes, rois, eighths),
        open_tensor(deltas, (5, 8), 0.05 if boxes == Q16A else 0.0),
        open_tensor(I32, (5,)),
        open_tensor(boxes, (2, 2), eighths),
    ]


def test_there_is_a_box_for_each_region_and_class() -> None:
    assert dimensions_of(CODE, inputs(F32, F32, (0, 4)), output(F32, (0, 8))) == ((5, 8),)


@pytest.mark.parametrize(("boxes", "deltas", "level"), [(F16, F16, 3), (F32, F32, 3), (Q16A, Q8A, 3), (Q16A, Q8AS, 4)])
def test_quantised_boxes_have_deltas_of_either_quant8_type(boxes: OperandType, deltas: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(boxes, deltas, (5, 4)), output(boxes, (5, 8), 0.125)) == level


@pytest.mark.parametrize(("boxes", "deltas"), [(F32, F16), (Q16A, F32), (Q8A, Q8A)])
def test_other_types_are_refused(boxes: OperandType, deltas: OperandType) -> None:
    with pytest.raises(HalError, match="expected"):
        level_of(CODE, inputs(boxes, deltas, (5, 4)), output(boxes, (5, 8)))


def test_quantised_boxes_count_eighths() -> None:
    with pytest.raises(HalError, match=r"scale 0.25 .* expected 0.125"):
        dimensions_of(CODE, inputs(Q16A, Q8A, (5, 4), scale=0.25), output(Q16A, (5, 8), 0.125))


@pytest.mark.parametrize("rois", [(4, 4), (5, 3)])
def test_operands_agree_on_the_number_of_regions(rois: Dimensions) -> None:
    with pytest.raises(HalError, match="expected equal numbers"):
        dimensions_of(CODE, inputs(F32, F32, rois), output(F32))
