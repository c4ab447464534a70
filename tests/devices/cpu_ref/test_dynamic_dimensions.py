"""Models in which it depends on the values how many boxes there are, on the reference driver."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import BOOL, F32, FLOAT32, I32, INT32
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, Control, PrepareOptions
from tests.support.models import Recipe, run_on
from tests.support.operations import output


@pytest.fixture
def detector() -> ResolvedModel:
    """Picks the boxes whose scores are high enough, and cuts them out of a feature map."""
    recipe = Recipe()
    scores = recipe.input(F32, (2, 2))
    boxes = recipe.constant(F32, [[0, 0, 1, 1, 0, 0, 2, 2], [0, 0, 1, 1, 2, 2, 4, 4]])
    thresholds = [recipe.constant(FLOAT32, value) for value in (0.5, 0.4, 1, 0.3)]
    chosen = recipe.operation(
        OperationType.BOX_WITH_NMS_LIMIT,
        [
            scores,
            boxes,
            recipe.constant(I32, [0, 0]),
            thresholds[0],
            recipe.constant(INT32, -1),
            recipe.constant(INT32, 0),
            *thresholds[1:],
        ],
        *(output(code, dimensions) for code, dimensions in ((F32, (0,)), (F32, (0, 4)), (I32, (0,)), (I32, (0,)))),
    )
    features = recipe.constant(F32, np.ones((1, 4, 4, 3)))
    one, channels_last = recipe.constant(FLOAT32, 1), recipe.constant(BOOL, 0)
    regions = recipe.operation(
        OperationType.ROI_ALIGN,
        [features, chosen + 1, chosen + 3, *recipe.integers(2, 2), one, one, *recipe.integers(0, 0), channels_last],
        output(F32, (0, 2, 2, 3)),
    )
    return recipe.build(chosen, regions)


@pytest.mark.parametrize(
    ("scores", "shapes"),
    [
        ([[0, 0.6], [0, 0.7]], [(2,), (2, 2, 2, 3)]),
        ([[0, 0.6], [0, 0.4]], [(1,), (1, 2, 2, 3)]),
        ([[0, 0.3], [0, 0.4]], [(0,), (0, 2, 2, 3)]),
    ],
)
def test_as_many_regions_as_boxes_are_left_even_none(
    detector: ResolvedModel, scores: list[list[float]], shapes: list[Dimensions]
) -> None:
    results = run_on(CpuRef(), detector, np.array(scores, np.float32))
    assert [result.shape for result in results] == shapes


def test_an_input_that_the_operation_cannot_do_without_must_not_be_omitted(detector: ResolvedModel) -> None:
    memory = [Argument(np.zeros(64, np.uint8), ()) for _ in range(2)]
    bound = CpuRef().prepare(detector, PrepareOptions()).bind([Argument(None, (2, 2))], memory)
    with pytest.raises(HalError, match=r"input 0 is omitted") as caught:
        bound.run(Control())
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
