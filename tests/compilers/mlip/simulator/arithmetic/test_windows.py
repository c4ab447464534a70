"""Windows that slide over an image, against the same place by place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_mlip.program.program import TaskKind, TaskWindow, TensorType, TileTask
from nnhal_mlip.simulator.arithmetic.compute import compute
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands
from tests.support.mlip_by_hand import NUMBERS, contiguous

RANDOM = np.random.default_rng(3)
WINDOWS = [
    TaskWindow((2, 2), (2, 2)),
    TaskWindow((3, 2), (2, 1), padding=(1, 0, 2, 1)),
    TaskWindow((3, 3), (1, 2), (2, 3), (2, 3, 1, 3)),
    TaskWindow((10, 11)),
    TaskWindow((2, 3), (3, 2), padding=(-1, 1, -2, -1)),
    TaskWindow((3, 3), (2, 2), padding=(1, 1, 1, 1), count_padding=True),
]


def place_by_place(image: Array, window: TaskWindow, of: Callable[[Array], Array]) -> Array:
    """Apply a function to the elements under the window at each place: NaN is padding."""
    top, left, bottom, right = window.padding
    framed = np.full((len(image), 60, 60, image.shape[3]), np.nan)
    framed[:, 20 : 20 + image.shape[1], 20 : 20 + image.shape[2]] = image
    framed = framed[:, 20 - top : 20 + image.shape[1] + bottom, 20 - left : 20 + image.shape[2] + right]
    high, wide = ((kernel - 1) * step + 1 for kernel, step in zip(window.kernel, window.dilation, strict=True))
    rows = range(0, framed.shape[1] - high + 1, window.strides[0])
    columns = range(0, framed.shape[2] - wide + 1, window.strides[1])
    seen = [
        [framed[:, y : y + high : window.dilation[0], x : x + wide : window.dilation[1]] for x in columns] for y in rows
    ]
    return np.stack([np.stack([of(each) for each in row], 1) for row in seen], 1)


def computed(
    kind: TaskKind, image: Array, window: TaskWindow, shape: tuple[int, ...], weights: Array | None = None
) -> Array:
    output = contiguous(0, shape, TensorType.FP32, 4)
    task: TileTask = replace(NUMBERS, kind=kind, window=window, output=output)
    return compute(task, TaskOperands((image,), weights, None, None), np.dtype(np.float32))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", [np.int8, np.float16])
def test_pools_and_depthwise_convolutions_see_what_is_under_the_window(
    window: TaskWindow, dtype: type[np.generic]
) -> None:
    image = RANDOM.integers(-100, 100, (2, 10, 11, 3)).astype(dtype)
    filters = RANDOM.integers(-3, 4, (1, *window.kernel, 3)).astype(dtype)
    count = window.kernel[0] * window.kernel[1]
    for kind, of in (
        (TaskKind.MAX_POOL, lambda seen: np.nanmax(seen, (1, 2))),
        (
            TaskKind.AVERAGE_POOL,
            lambda seen: np.nansum(seen, (1, 2)) / count if window.count_padding else np.nanmean(seen, (1, 2)),
        ),
        (TaskKind.DEPTHWISE, lambda seen: np.nansum(seen * filters[0], (1, 2))),
    ):
        expected = place_by_place(image.astype(np.float64), window, of)
        weights = filters if kind == TaskKind.DEPTHWISE else None
        got = computed(kind, image, window, expected.shape, weights)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_convolution_sums_over_all_channels(window: TaskWindow) -> None:
    image = RANDOM.integers(-100, 100, (2, 10, 11, 3)).astype(np.int8)
    filters = RANDOM.integers(-128, 128, (4, *window.kernel, 3)).astype(np.int8)
    expected = place_by_place(
        image, window, lambda seen: np.nansum(seen[:, np.newaxis] * filters.astype(np.float64), (2, 3, 4))
    )
    got = computed(TaskKind.CONVOLUTION, image, window, expected.shape, filters)
    np.testing.assert_array_equal(got, expected)
