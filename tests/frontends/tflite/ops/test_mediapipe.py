"""Custom operators of MediaPipe."""

from __future__ import annotations

import struct
from itertools import product

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.onnx_models import by_cpu_ref, operations
from tests.support.tflite_files import Spec, TfliteFile, floats

SAME, VALID = 1, 2
FILTER = random(3, 4, 2, 5, seed=1)
BIAS = random(3, seed=2)


def file(images: Spec, options: bytes, result: tuple[int, ...] = (0, 0, 0, 3)) -> bytes:
    found = TfliteFile()
    x = found.input("x", images)
    inputs = [x, found.constant(FILTER), found.constant(BIAS)]
    shape = {"y": floats(*result)}
    return found.build(*found.operator("Convolution2DTransposeBias", inputs, shape, custom=options))


def expected(images: Array, padding: int, stride_width: int, stride_height: int) -> Array:
    """Return what the operator computes, pixel by pixel, by MediaPipe's definition."""
    count, height, width, _ = images.shape
    channels, rows, columns, _ = FILTER.shape
    pad_rows = max(0, rows - (height - 1) % stride_height - 1) if padding == SAME else 0
    pad_columns = max(0, columns - (width - 1) % stride_width - 1) if padding == SAME else 0
    shape = (stride_height * (height - 1) + rows - pad_rows, stride_width * (width - 1) + columns - pad_columns)
    found = np.zeros((count, shape[0] + pad_rows, shape[1] + pad_columns, channels)) + BIAS
    for y, x in product(range(height), range(width)):
        top, left = y * stride_height, x * stride_width
        patch = np.einsum("nc,orsc->nrso", images[:, y, x].astype(np.float64), FILTER)
        found[:, top : top + rows, left : left + columns] += patch
    top, left = pad_rows // 2, pad_columns // 2
    return found[:, top : top + shape[0], left : left + shape[1]]


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("stride_width", "stride_height"), [(1, 1), (2, 2), (2, 3), (5, 1)])
@pytest.mark.parametrize("more", [b"", struct.pack("<2i", 0, 0)], ids=["old", "new"])
def test_a_transposed_convolution_has_a_bias(padding: int, stride_width: int, stride_height: int, more: bytes) -> None:
    options = struct.pack("<3i", padding, stride_width, stride_height) + more
    images = random(2, 5, 6, 5)
    wanted = expected(images, padding, stride_width, stride_height)
    imported = import_tflite(file(floats(2, 5, 6, 5), options, wanted.shape))
    (got,) = by_cpu_ref(imported, {"x": images})
    assert operations(imported) == ["TRANSPOSE_CONV_2D"]
    np.testing.assert_allclose(got, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        (b"abc", (1, 5, 6, 5), "3 bytes of options; supported: 12 at least"),
        (struct.pack("<3i", 0, 1, 1), (1, 5, 6, 5), "padding 0 and strides 1 and 1"),
        (struct.pack("<3i", 1, 0, -7), (1, 5, 6, 5), "padding 1 and strides 0 and -7"),
        (struct.pack("<3i", 1, 2, 2), (5, 6, 5), "images of rank 3 and a filter of rank 4"),
    ],
)
def test_what_it_cannot_be_is_said(options: bytes, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(UnsupportedNode, match=message) as caught:
        import_tflite(file(floats(*shape), options), extension=False)
    assert caught.value.op_type == "CUSTOM Convolution2DTransposeBias"


def test_a_huge_stride_takes_no_memory() -> None:
    options = struct.pack("<3i", VALID, 2**31 - 1, 2**31 - 1)
    with pytest.raises(InvalidModel, match=r"takes \d+ bytes, expected at most 4294967295"):
        import_tflite(file(floats(1, 5, 6, 5), options))
