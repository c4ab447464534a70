"""``python -m benchmarks.zoo.operations DIRECTORY``: TFLite files of chains of one or a few operations.

Each is eight times the same on images of 32 x 32 with 32 channels, as floats and as signed bytes. To measure them:
``python -m benchmarks.zoo --folder DIRECTORY``, or ``nnhal bench FILE --beside litert``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nnhal.arrays import Array
from tests.support.tflite_files import Spec, TfliteFile

_REPEATED = 8
_SIZE = 32
_CHANNELS = 32
_SCALE, _ZERO_POINT, _WEIGHT_SCALE = 0.05, 3, 0.01
_SAME, _VALID = 0, 1
_STRIDES = {"StrideW": 1, "StrideH": 1, "Padding": _SAME, "DilationWFactor": 1, "DilationHFactor": 1}
_HALVES = {"StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2, "Padding": _VALID}


class Chain:
    """A file while operations are added to it. Each method takes an image and returns the next."""

    def __init__(self, is_quantized: bool) -> None:
        self.file = TfliteFile()
        self._is_quantized = is_quantized
        self._generator = np.random.default_rng(0)
        self._size = _SIZE
        self._count = 0
        self.image = self.file.input("x", self._spec())

    def op(
        self, code: str, *inputs: int, options: str = "", scale: float = _SCALE, zero: int = 3, **fields: Any
    ) -> int:
        """Add an operation whose output has the size that is current."""
        self._count += 1
        outputs = {f"y{self._count}": self._spec(scale, zero)}
        return self.file.operator(code, inputs, outputs, (options, fields) if options else None)[0]

    def conv(self, image: int, window: int = 1) -> int:
        """CONV_2D."""
        weights = self._weights((_CHANNELS, window, window, _CHANNELS)) / (window * np.sqrt(_CHANNELS))
        return self._convolved("CONV_2D", "Conv2DOptions", image, weights, {})

    def depthwise(self, image: int) -> int:
        """DEPTHWISE_CONV_2D of 3 x 3."""
        weights = self._weights((1, 3, 3, _CHANNELS)) / 3
        options = "DepthwiseConv2DOptions"
        return self._convolved("DEPTHWISE_CONV_2D", options, image, weights, {"DepthMultiplier": 1})

    def prelu(self, image: int) -> int:
        """PRELU with a slope for each channel."""
        slopes = self._constant(self._generator.uniform(0.01, 0.5, (1, 1, _CHANNELS)))
        return self.op("PRELU", image, slopes)

    def pool(self, image: int, code: str) -> int:
        """Halve the size."""
        self._size //= 2
        return self.op(code, image, options="Pool2DOptions", **_HALVES)

    def resize(self, image: int, code: str, options: str, **fields: bool) -> int:
        """Double the size."""
        self._size *= 2
        size = self.file.constant(np.array([self._size, self._size], np.int32))
        return self.op(code, image, size, options=options, **fields)

    def nearest(self, image: int) -> int:
        """RESIZE_NEAREST_NEIGHBOR."""
        return self.resize(image, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")

    def bilinear(self, image: int) -> int:
        """RESIZE_BILINEAR."""
        return self.resize(image, "RESIZE_BILINEAR", "ResizeBilinearOptions", HalfPixelCenters=True)

    def hard_swish(self, image: int) -> int:
        """HARD_SWISH."""
        return self.op("HARD_SWISH", image, options="HardSwishOptions")

    def add(self, first: int, second: int) -> int:
        """ADD."""
        return self.op("ADD", first, second, options="AddOptions")

    def _convolved(self, code: str, options: str, image: int, weights: Array, more: Mapping[str, int]) -> int:
        if self._is_quantized:
            spec = Spec((_CHANNELS,), np.int32, _SCALE * _WEIGHT_SCALE)
            bias = self.file.constant(np.zeros(_CHANNELS, np.int32), spec)
        else:
            bias = self.file.constant(np.zeros(_CHANNELS, np.float32))
        return self.op(code, image, self._constant(weights), bias, options=options, **_STRIDES, **more)

    def _weights(self, shape: tuple[int, ...]) -> Array:
        return self._generator.standard_normal(shape)

    def _constant(self, values: Array) -> int:
        if not self._is_quantized:
            return self.file.constant(values.astype(np.float32))
        kept = np.clip(np.round(values / _WEIGHT_SCALE), -127, 127)
        return self.file.constant(kept, Spec(values.shape, np.int8, _WEIGHT_SCALE))

    def _spec(self, scale: float = _SCALE, zero: int = _ZERO_POINT) -> Spec:
        shape = (1, self._size, self._size, _CHANNELS)
        return Spec(shape, np.int8, scale, zero) if self._is_quantized else Spec(shape)


LINKS: dict[str, Callable[[Chain, int], int]] = {
    "hard_swish": Chain.hard_swish,
    "prelu": Chain.prelu,
    "max_pool_nearest": lambda chain, image: chain.nearest(chain.pool(image, "MAX_POOL_2D")),
    "average_pool_bilinear": lambda chain, image: chain.bilinear(chain.pool(image, "AVERAGE_POOL_2D")),
    "block_prelu": lambda chain, image: chain.prelu(chain.add(image, chain.conv(chain.depthwise(image)))),
    "block_hard_swish": lambda chain, image: chain.hard_swish(chain.conv(chain.hard_swish(chain.depthwise(image)))),
    "conv": Chain.conv,
    "conv_hard_swish": lambda chain, image: chain.hard_swish(chain.conv(image)),
    "conv_prelu": lambda chain, image: chain.prelu(chain.conv(image)),
    "u_net": lambda chain, image: chain.conv(
        chain.nearest(chain.conv(chain.pool(chain.conv(image, 3), "MAX_POOL_2D"), 3)), 3
    ),
    "logistic": lambda chain, image: chain.op("LOGISTIC", image, scale=1 / 256, zero=-128),
    "tanh": lambda chain, image: chain.op("TANH", image, scale=1 / 128, zero=0),
    "elu": lambda chain, image: chain.op("ELU", image),
}
"""What is repeated, by name."""


def chain_of(name: str, is_quantized: bool) -> bytes:
    """Return a file."""
    chain = Chain(is_quantized)
    image = chain.image
    for _ in range(_REPEATED):
        image = LINKS[name](chain, image)
    return chain.file.build(image)


def main() -> int:
    """Write the files."""
    parser = argparse.ArgumentParser("python -m benchmarks.zoo.operations", description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        for kind, is_quantized in (("float", False), ("int8", True)):
            (directory / f"{name}_{kind}.tflite").write_bytes(chain_of(name, is_quantized))
    return 0


if __name__ == "__main__":
    sys.exit(main())
