"""A small network after MobileNet V2 (Sandler et al., 2018), as TFLite: a body in int8, and a head in floats.

The weights are random, so its classification means nothing; types, shapes and the order of operators are real.
``python -m tests.support.mobilenet NETWORK.tflite IMAGE.npy [BODY.tflite]`` writes the network and an image for it, and
its body alone, which is in int8 from end to end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from tests.support.drawn_values import integers, random
from tests.support.tflite_files import Options, Spec, TfliteFile, floats, int8

SIDE, CLASSES, FIRST_LABEL = 128, 10, 100
BODY, HEAD, LABELS = "body", "head", "labels"
"""Prefixes of the names of operators: those in int8, in floats, and in integers."""
_SCALE = 0.05
_GAIN = 2.5 / 127
"""The gain of a filter with one value, so that values neither vanish nor saturate from layer to layer."""
_SAME, _NONE, _RELU6 = 0, 0, 3
_BLOCKS = ((1, 8, 1, 1), (4, 16, 2, 2), (4, 24, 2, 2))
"""Groups of inverted residual blocks: expansion, channels, repetitions, stride of the first."""


def image(seed: int = 11) -> Array:
    return integers(1, SIDE, SIDE, 3, seed=seed).astype(np.int8)


class MobileNet:
    """The network. Its outputs: ``head/probabilities``, and ``labels/label``, the label of the most probable class.

    With ``body_only`` its output is that of the last convolution.
    """

    def __init__(self, body_only: bool = False) -> None:
        self._file = TfliteFile()
        self._numbers = 0
        value = self._file.input("image", int8(1, SIDE, SIDE, 3, scale=_SCALE))
        value, shape = self._convolution(value, (SIDE, 3), 16, kernel=3, stride=2)
        for expansion, channels, repetitions, stride in _BLOCKS:
            for number in range(repetitions):
                value, shape = self._block(value, shape, expansion, channels, stride if number == 0 else 1)
        value, shape = self._convolution(value, shape, 64)
        if body_only:
            self.content = self._file.build(value)
            return
        probabilities = self._head(value, shape)
        self.content = self._file.build(probabilities, self._label(probabilities))

    def _block(
        self, value: int, shape: tuple[int, int], expansion: int, channels: int, stride: int
    ) -> tuple[int, tuple[int, int]]:
        """Add an inverted residual block: expand, filter each channel, project; add the input if the shape is kept."""
        _, given = shape
        wide, widened = self._convolution(value, shape, given * expansion) if expansion > 1 else (value, shape)
        filtered, smaller = self._depthwise(wide, widened, stride)
        narrow, result = self._convolution(filtered, smaller, channels, activation=_NONE)
        if result != shape:
            return narrow, result
        spec = int8(1, result[0], result[0], result[1], scale=_SCALE)
        options: Options = ("AddOptions", {"FusedActivationFunction": _NONE})
        return self._operator("ADD", [value, narrow], f"{BODY}/sum", spec, options), result

    def _convolution(
        self,
        value: int,
        shape: tuple[int, int],
        channels: int,
        kernel: int = 1,
        stride: int = 1,
        activation: int = _RELU6,
    ) -> tuple[int, tuple[int, int]]:
        side, given = shape
        weights = [_GAIN / (kernel * np.sqrt(given))] * channels
        filter_ = integers(channels, kernel, kernel, given, seed=self._numbers, low=-127)
        inputs = [
            value,
            self._file.constant(filter_, int8(channels, kernel, kernel, given, scale=weights)),
            self._bias(channels, weights),
        ]
        options: Options = (
            "Conv2DOptions",
            {"Padding": _SAME, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": activation},
        )
        return self._filtered("CONV_2D", inputs, "convolution", (side // stride, channels), options)

    def _depthwise(self, value: int, shape: tuple[int, int], stride: int) -> tuple[int, tuple[int, int]]:
        side, channels = shape
        weights = [_GAIN / 3] * channels
        filter_ = integers(1, 3, 3, channels, seed=self._numbers, low=-127)
        inputs = [
            value,
            self._file.constant(filter_, int8(1, 3, 3, channels, scale=weights, axis=3)),
            self._bias(channels, weights),
        ]
        options: Options = (
            "DepthwiseConv2DOptions",
            {
                "Padding": _SAME,
                "StrideW": stride,
                "StrideH": stride,
                "DepthMultiplier": 1,
                "FusedActivationFunction": _RELU6,
            },
        )
        return self._filtered("DEPTHWISE_CONV_2D", inputs, "depthwise", (side // stride, channels), options)

    def _filtered(
        self, code: str, inputs: list[int], name: str, shape: tuple[int, int], options: Options
    ) -> tuple[int, tuple[int, int]]:
        side, channels = shape
        spec = int8(1, side, side, channels, scale=_SCALE)
        return self._operator(code, inputs, f"{BODY}/{name}", spec, options), shape

    def _bias(self, channels: int, weights: list[float]) -> int:
        scales = [_SCALE * weight for weight in weights]
        return self._file.constant(integers(channels, seed=self._numbers), Spec([channels], np.int32, scales))

    def _head(self, value: int, shape: tuple[int, int]) -> int:
        side, channels = shape
        image_ = self._operator("DEQUANTIZE", [value], f"{HEAD}/floats", floats(1, side, side, channels))
        axes = self._file.constant(np.array([1, 2], np.int32))
        mean = self._operator("MEAN", [image_, axes], f"{HEAD}/mean", floats(1, channels), ("ReducerOptions", {}))
        weights = self._file.constant(random(CLASSES, channels, low=-0.5, high=0.5))
        dense: Options = ("FullyConnectedOptions", {"FusedActivationFunction": _NONE})
        scores = self._operator("FULLY_CONNECTED", [mean, weights, -1], f"{HEAD}/scores", floats(1, CLASSES), dense)
        softmax: Options = ("SoftmaxOptions", {"Beta": 1.0})
        (result,) = self._file.operator("SOFTMAX", [scores], {f"{HEAD}/probabilities": floats(1, CLASSES)}, softmax)
        return result

    def _label(self, probabilities: int) -> int:
        axis = self._file.constant(np.array(1, np.int32))
        best = self._operator(
            "ARG_MAX",
            [probabilities, axis],
            f"{LABELS}/best",
            Spec([1], np.int32),
            ("ArgMaxOptions", {"OutputType": 2}),
        )
        first = self._file.constant(np.array([FIRST_LABEL], np.int32))
        options: Options = ("AddOptions", {"FusedActivationFunction": _NONE})
        (result,) = self._file.operator("ADD", [best, first], {f"{LABELS}/label": Spec([1], np.int32)}, options)
        return result

    def _operator(self, code: str, inputs: list[int], name: str, spec: Spec, options: Options | None = None) -> int:
        self._numbers += 1
        (result,) = self._file.operator(code, inputs, {f"{name}_{self._numbers}": spec}, options)
        return result


if __name__ == "__main__":
    network, picture, *others = map(Path, sys.argv[1:])
    network.write_bytes(MobileNet().content)
    np.save(picture, image())
    for body in others:
        body.write_bytes(MobileNet(body_only=True).content)
