from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.ROI_POOLING


def inputs(main: OperandType, channels_first: bool = False) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 8, 9, 5), 0.1 * quantized),
        open_tensor(box_type(main), (7, 4), 0.125 * quantized),
        open_tensor(I32, (0,)),
        *integers(2, 3),
        scalar(real, 4),
        scalar(real, 2),
        boolean(channels_first),
    ]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_types(main: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(main), output(main, (7, 2, 3, 5), 0.1 * (main in (Q8A, Q8AS)))) == level


def test_every_region_becomes_a_feature_map_of_one_size() -> None:
    assert dimensions_of(CODE, inputs(F32), output(F32)) == ((7, 2, 3, 5),)
    assert dimensions_of(CODE, inputs(F32, channels_first=True), output(F32)) == ((7, 8, 2, 3),)


def test_features_keep_their_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.2 .* expected 0.1"):
        dimensions_of(CODE, inputs(Q8A), output(Q8A, scale=0.2))
