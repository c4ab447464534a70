from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import Operand, OperandType, OperationType
from tests.support.operations import Given, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.BOX_WITH_NMS_LIMIT


def inputs(main: OperandType, *, kernel: int = 0, sigma: float = 0.5, classes: int = 3) -> list[Given]:
    quantized = main in (Q8A, Q8AS)
    real = scalar_float(main)
    return [
        open_tensor(main, (0, classes), 0.01 * quantized),
        open_tensor(box_type(main), (0, 12), 0.125 * quantized),
        open_tensor(I32, (0,)),
        scalar(real, 0.3),
        *integers(-1, kernel),
        scalar(real, 0.4),
        scalar(real, sigma),
        scalar(real, 0.3),
    ]


def outputs(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [
        output(main, (0,), 0.01 * quantized),
        output(box_type(main), (0, 4), 0.125 * quantized),
        output(I32, (0,)),
        output(I32, (0,)),
    ]


def test_how_many_boxes_are_left_is_not_known_before_execution() -> None:
    assert dimensions_of(CODE, inputs(F32), *outputs(F32)) == ((0,), (0, 4), (0,), (0,))


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_types(main: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(main), *outputs(main)) == level


def test_parameters_of_float16_scores_are_float16() -> None:
    given = inputs(F16)
    given[7] = scalar(OperandType.FLOAT32, 0.5)
    with pytest.raises(HalError, match=r"input 7 \(sigma\) is FLOAT32, expected FLOAT16"):
        level_of(CODE, given, *outputs(F16))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": 3}, "kernel 3"),
        ({"kernel": 2, "sigma": 0.0}, "sigma is 0"),
        ({"classes": 4}, "expected equal numbers"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(HalError, match=message):
        dimensions_of(CODE, inputs(F32, **parameters), *outputs(F32))


def test_scores_keep_their_quantisation() -> None:
    with pytest.raises(HalError, match=r"scale 0.02 .* expected 0.01"):
        dimensions_of(CODE, inputs(Q8A), output(Q8A, (0,), 0.02), *outputs(Q8A)[1:])
