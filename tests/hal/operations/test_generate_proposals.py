from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q16A, Q16S, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import Operand, OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.GENERATE_PROPOSALS


def inputs(main: OperandType, *, anchors: int = 2, ratio: float = 4, channels_first: bool = False) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 3, 5, 2), 0.01 * quantized),
        open_tensor(main, (0, 3, 5, 8), 0.05 * quantized),
        open_tensor(Q16S if quantized else main, (anchors, 4), 0.125 * quantized),
        open_tensor(box_type(main), (1, 2), 0.125 * quantized),
        scalar(real, ratio),
        scalar(real, ratio),
        *integers(-1, -1),
        scalar(real, 0.3),
        scalar(real, 1),
        boolean(channels_first),
    ]


def outputs(main: OperandType) -> list[Operand]:
    quantized = main in (Q8A, Q8AS)
    return [
        output(main, (0,), 0.01 * quantized),
        output(box_type(main), (0, 4), 0.125 * quantized),
        output(I32, (0,)),
    ]


def test_how_many_proposals_are_left_is_not_known_before_execution() -> None:
    assert dimensions_of(CODE, inputs(F32), *outputs(F32)) == ((0,), (0, 4), (0,))


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_types(main: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(main), *outputs(main)) == level


def test_quantised_anchors_are_signed_as_they_may_lie_outside_the_image() -> None:
    given = inputs(Q8A)
    given[2] = open_tensor(Q16A, (2, 4), 0.125)
    with pytest.raises(HalError, match=r"input 2 \(anchors\) is TENSOR_QUANT16_ASYMM, expected TENSOR_QUANT16_SYMM"):
        level_of(CODE, given, *outputs(Q8A))


@pytest.mark.parametrize("parameters", [{"anchors": 3}, {"channels_first": True}, {"ratio": 0}])
def test_operands_that_do_not_go_together_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(CODE, inputs(F32, **parameters), *outputs(F32))
