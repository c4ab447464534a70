"""Networks of one operation at the edges of what Vela's report allows: just inside, and just outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from tflite import ActivationFunctionType, Padding

from tests.support.tflite_files import Spec, TfliteFile

_NONE = ActivationFunctionType.NONE
_SCALE = 0.05


class VelaEdge(NamedTuple):
    """A constraint."""

    operator: str
    constraint: str
    """The row of the report, in short."""
    build: Callable[[int], bytes]
    """A network for a number."""
    inside: int
    outside: int


def _int8(*shape: int) -> Spec:
    return Spec(shape, np.int8, _SCALE, 0)


def _pooled(kind: str, image: tuple[int, int], window: tuple[int, int], stride: int, padding: int) -> bytes:
    file = TfliteFile()
    same = padding == Padding.SAME
    made = [
        -(-size // stride) if same else (size - reach) // stride + 1 for size, reach in zip(image, window, strict=True)
    ]
    options = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FilterHeight": window[0]}
    options |= {"FilterWidth": window[1], "FusedActivationFunction": _NONE}
    given = file.input("x", _int8(1, *image, 8))
    return file.build(*file.operator(kind, [given], {"y": _int8(1, *made, 8)}, ("Pool2DOptions", options)))


def _convolved(depthwise: bool, stride: int, padding: int) -> bytes:
    file, size, channels = TfliteFile(), 25, 8
    made = -(-size // stride) if padding == Padding.SAME else (size - 3) // stride + 1
    shape = (1, 3, 3, channels) if depthwise else (channels, 3, 3, channels)
    options: dict[str, Any] = {"Padding": padding, "StrideH": stride, "StrideW": stride}
    options |= {"DilationHFactor": 1, "DilationWFactor": 1, "FusedActivationFunction": _NONE}
    if depthwise:
        options["DepthMultiplier"] = 1
    inputs = [file.input("x", _int8(1, size, size, channels)), *_constants(file, np.ones(shape, np.int8), channels)]
    kind, table = ("DEPTHWISE_CONV_2D", "Depthwise") if depthwise else ("CONV_2D", "")
    made_of = {"y": _int8(1, made, made, channels)}
    return file.build(*file.operator(kind, inputs, made_of, (f"{table}Conv2DOptions", options)))


def _summed(channels: int) -> bytes:
    """A convolution of 2 x 2 whose weights are all 127."""
    file = TfliteFile()
    weights = _constants(file, np.full((8, 2, 2, channels), 127, np.int8), 8)
    options = {"Padding": Padding.VALID, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    options["FusedActivationFunction"] = _NONE
    inputs = [file.input("x", _int8(1, 2, 2, channels)), *weights]
    return file.build(*file.operator("CONV_2D", inputs, {"y": _int8(1, 1, 1, 8)}, ("Conv2DOptions", options)))


def _averaged(batch: int, height: int) -> bytes:
    file = TfliteFile()
    axes = file.constant(np.array([1, 2], np.int32))
    inputs = [file.input("x", _int8(batch, height, 4, 8)), axes]
    return file.build(*file.operator("MEAN", inputs, {"y": _int8(batch, 8)}, ("ReducerOptions", {"KeepDims": False})))


def _resized(kind: str, times: int, half_pixels: bool = False) -> bytes:
    file = TfliteFile()
    size = file.constant(np.array([4 * times, 4 * times], np.int32))
    inputs = [file.input("x", _int8(1, 4, 4, 8)), size]
    table = "ResizeBilinear" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighbor"
    options = {"AlignCorners": False, "HalfPixelCenters": half_pixels}
    made = {"y": _int8(1, 4 * times, 4 * times, 8)}
    return file.build(*file.operator(kind, inputs, made, (f"{table}Options", options)))


def _transposed(stride: int) -> bytes:
    file, made = TfliteFile(), 4 * stride
    weights, biases = _constants(file, np.ones((8, 3, 3, 8), np.int8), 8)
    shape = file.constant(np.array([1, made, made, 8], np.int32))
    inputs = [shape, weights, file.input("x", _int8(1, 4, 4, 8)), biases]
    options = {"Padding": Padding.SAME, "StrideH": stride, "StrideW": stride, "FusedActivationFunction": _NONE}
    made_of = {"y": _int8(1, made, made, 8)}
    return file.build(*file.operator("TRANSPOSE_CONV", inputs, made_of, ("TransposeConvOptions", options)))


def _softened(height: int, width: int) -> bytes:
    file = TfliteFile()
    made = Spec((1, height, width, 8), np.int8, 1 / 256, -128)
    given = file.input("x", _int8(1, height, width, 8))
    return file.build(*file.operator("SOFTMAX", [given], {"y": made}, ("SoftmaxOptions", {"Beta": 1.0})))


def _constants(file: TfliteFile, weights: Any, channels: int) -> list[int]:
    given = Spec(weights.shape, np.int8, 0.01, 0)
    biases = Spec((channels,), np.int32, _SCALE * 0.01, 0)
    return [file.constant(weights, given), file.constant(np.zeros(channels, np.int32), biases)]


_SAME, _VALID = Padding.SAME, Padding.VALID
EDGES = (
    VelaEdge("AVERAGE_POOL_2D", "height, SAME", lambda n: _pooled("AVERAGE_POOL_2D", (16, 16), (n, 2), 1, _SAME), 8, 9),
    VelaEdge("AVERAGE_POOL_2D", "width, SAME", lambda n: _pooled("AVERAGE_POOL_2D", (16, 16), (2, n), 1, _SAME), 8, 9),
    VelaEdge("AVERAGE_POOL_2D", "height", lambda n: _pooled("AVERAGE_POOL_2D", (n, 4), (n, 2), 1, _VALID), 256, 257),
    VelaEdge("AVERAGE_POOL_2D", "stride, SAME", lambda n: _pooled("AVERAGE_POOL_2D", (17, 17), (4, 4), n, _SAME), 3, 4),
    VelaEdge("MAX_POOL_2D", "height", lambda n: _pooled("MAX_POOL_2D", (n, 4), (n, 2), 1, _VALID), 256, 257),
    VelaEdge("MAX_POOL_2D", "product", lambda n: _pooled("MAX_POOL_2D", (256, n), (256, n), 1, _VALID), 256, 257),
    VelaEdge("MAX_POOL_2D", "stride, SAME", lambda n: _pooled("MAX_POOL_2D", (17, 17), (4, 4), n, _SAME), 3, 4),
    VelaEdge("CONV_2D", "stride, SAME", lambda n: _convolved(False, n, _SAME), 3, 4),
    VelaEdge("DEPTHWISE_CONV_2D", "stride", lambda n: _convolved(True, n, _VALID), 3, 4),
    VelaEdge("CONV_2D", "sum of weights", _summed, 16384, 16385),
    VelaEdge("RESIZE_BILINEAR", "factor", lambda n: _resized("RESIZE_BILINEAR", n), 8, 16),
    VelaEdge("RESIZE_BILINEAR", "half pixels", lambda n: _resized("RESIZE_BILINEAR", n, True), 2, 4),
    VelaEdge("RESIZE_NEAREST_NEIGHBOR", "factor", lambda n: _resized("RESIZE_NEAREST_NEIGHBOR", n), 8, 16),
    VelaEdge("SOFTMAX", "height x width", lambda n: _softened(n, 16), 4095, 4097),
    VelaEdge("TRANSPOSE_CONV", "stride", _transposed, 2, 3),
    VelaEdge("MEAN", "batch", lambda n: _averaged(n, 4), 1, 2),
    VelaEdge("MEAN", "reduced axis", lambda n: _averaged(1, n), 4096, 4097),
)
"""Vela takes a mean over 4096 and a softmax of 65,536 rows, though its report says less than these."""
