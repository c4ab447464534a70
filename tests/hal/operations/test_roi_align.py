from __future__ import annotations

from typing import Any

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, scalar_float
from nnhal.operations.boxes import box_type
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, scalar

CODE = OperationType.ROI_ALIGN


def inputs(
    main: OperandType,
    *,
    regions: int = 7,
    size: tuple[int, int] = (2, 3),
    ratio: float = 4,
    samples: int = 0,
    channels_first: bool = False,
) -> list[Given]:
    quantized, real = main in (Q8A, Q8AS), scalar_float(main)
    return [
        open_tensor(main, (1, 8, 9, 5), 0.1 * quantized),
        open_tensor(box_type(main), (regions, 4), 0.125 * quantized),
        open_tensor(I32, (7,)),
        *integers(*size),
        scalar(real, ratio),
        scalar(real, ratio),
        *integers(samples, samples),
        boolean(channels_first),
    ]


@pytest.mark.parametrize(("main", "level"), [(F16, 3), (F32, 3), (Q8A, 3), (Q8AS, 4)])
def test_types(main: OperandType, level: int) -> None:
    assert level_of(CODE, inputs(main), output(main, (7, 2, 3, 5), 0.2 * (main in (Q8A, Q8AS)))) == level


def test_every_region_becomes_a_feature_map_of_one_size() -> None:
    assert dimensions_of(CODE, inputs(F32, regions=0), output(F32)) == ((7, 2, 3, 5),)
    assert dimensions_of(CODE, inputs(F32, channels_first=True), output(F32)) == ((7, 8, 2, 3),)


@pytest.mark.parametrize("parameters", [{"regions": 6}, {"size": (0, 3)}, {"ratio": 0}, {"samples": -1}])
def test_parameters_that_mean_nothing_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(HalError, match="expected"):
        dimensions_of(CODE, inputs(F32, **parameters), output(F32))


def test_regions_of_unknown_rank_leave_the_answer_open() -> None:
    given = inputs(F32)
    given[1] = open_tensor(F32, ())
    with pytest.raises(UnknownYet):
        dimensions_of(CODE, given, output(F32))
