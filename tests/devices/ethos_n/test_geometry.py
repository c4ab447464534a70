from __future__ import annotations

import pytest

from nnhal.operations.operand_types import Q8A
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import OperationType
from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.table import geometry_of
from tests.support.agreement import like, single
from tests.support.npu import SAME, convolution

IMAGE = (1, 8, 6, 32)
TRANSPOSED = convolution(
    Q8A, (4, 5, 5, 2), [[1, 16, 16, 4], SAME, 2, 2, 0, False], (1, 8, 8, 2), OperationType.TRANSPOSE_CONV_2D
)
DEPTHWISE = convolution(Q8A, (1, 3, 5, 2), [SAME, 2, 2, 1, 0], (1, 8, 6, 2), OperationType.DEPTHWISE_CONV_2D)
MULTIPLIED = convolution(Q8A, (1, 3, 3, 4), [SAME, 1, 1, 4, 0], (1, 8, 6, 1), OperationType.DEPTHWISE_CONV_2D)


def geometry(model: ResolvedModel) -> Geometry:
    known = propagate_dimensions(model)
    (operation,) = model.model.main.operations
    return geometry_of(model.context(0, 0, known), [known[index] for index in operation.outputs])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param(
            convolution(Q8A, (4, 3, 5, 2), [SAME, 2, 2, 0], (1, 8, 6, 2)),
            Geometry(4, 4, 3, 8, 12, reach=3, step=2, weight_bytes=34, by_channel=False),
            id="convolution",
        ),
        pytest.param(DEPTHWISE, Geometry(4, 2, 3, 8, 12, reach=3, step=2, weight_bytes=19), id="depthwise"),
        pytest.param(
            MULTIPLIED, Geometry(8, 4, 6, 8, 6, reach=3, weight_bytes=13, by_channel=False), id="from one channel"
        ),
        pytest.param(
            TRANSPOSED,
            Geometry(16, 4, 16, 8, 16, reach=3, growth=2, weight_bytes=54, by_channel=False),
            id="transposed",
        ),
        pytest.param(
            single(OperationType.MAX_POOL_2D, Q8A, [IMAGE], [SAME, 2, 2, 3, 3, 0]),
            Geometry(4, 32, 3, 8, 192, reach=3, step=2),
            id="pooling",
        ),
        pytest.param(
            single(OperationType.MEAN, Q8A, [IMAGE], [[1, 2], 1]), Geometry(1, 32, 1, 8, 192, reach=8), id="mean"
        ),
        pytest.param(single(OperationType.ADD, Q8A, [IMAGE, IMAGE], [0]), Geometry(8, 32, 6, 8, 384), id="sum"),
        pytest.param(single(OperationType.RELU, Q8A, [(5, 7)]), Geometry(1, 7, 5, 1, 35), id="rank 2"),
        pytest.param(
            single(OperationType.SPLIT, Q8A, [IMAGE], [3, 2], like(Q8A), like(Q8A)),
            Geometry(8, 16, 12, 8, 192),
            id="several outputs",
        ),
        pytest.param(
            single(OperationType.DEPTH_TO_SPACE, Q8A, [IMAGE], [2]),
            Geometry(16, 8, 12, 8, 192, growth=2, by_channel=False),
            id="blocks",
        ),
        pytest.param(
            single(OperationType.RESIZE_BILINEAR, Q8A, [IMAGE], [12, 16]),
            Geometry(16, 32, 12, 8, 192, reach=2, growth=2),
            id="resize",
        ),
    ],
)
def test_what_an_operation_takes_at_a_time(model: ResolvedModel, expected: Geometry) -> None:
    assert geometry(model) == expected
