from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, scalar_float
from nnhal.types import Operand, OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.DETECTION_POSTPROCESSING


def inputs(
    main: OperandType, *, classes: int = 3, encoding: int = 4, scale: float = 10, most: tuple[int, int, int] = (3, 1, 1)
) -> list[Given]:
    real = scalar_float(main)
    return [
        open_tensor(main, (2, 6, classes)),
        open_tensor(main, (0, 6, encoding)),
        open_tensor(main, (0, 4)),
        *(scalar(real, scale) for _ in range(4)),
        boolean(False),
        *integers(*most),
        scalar(real, 0),
        scalar(real, 0.5),
        boolean(False),
    ]


def outputs(main: OperandType) -> list[Operand]:
    return [output(main, (2, 3)), output(main, (2, 3, 4)), output(I32, (2, 3)), output(I32, (2,))]


@pytest.mark.parametrize("main", [F16, F32])
def test_there_is_room_for_all_detections(main: OperandType) -> None:
    assert level_of(CODE, inputs(main), *outputs(main)) == 3
    assert dimensions_of(CODE, inputs(main, encoding=7), *outputs(main)) == ((2, 3), (2, 3, 4), (2, 3), (2,))


def test_quantised_scores_are_refused() -> None:
    with pytest.raises(HalError, match="TENSOR_QUANT8_ASYMM"):
        level_of(CODE, inputs(Q8A), *outputs(Q8A))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"encoding": 3}, "encoding is 3"),
        ({"classes": 1}, "background is 1"),
        ({"scale": 0}, "scale_y is 0"),
        ({"most": (0, 1, 1)}, "max_detections is 0"),
        ({"most": (3, 0, 1)}, "max_classes_per_detection is 0"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(CODE, inputs(F32, **parameters), *outputs(F32))
