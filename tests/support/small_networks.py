"""Small int8 networks, and inputs for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal.operations.operand_types import I32, Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType, OperationType
from tests.support.agreement import like
from tests.support.models import Recipe
from tests.support.npu import SAME, VALID

_ACCUMULATOR = float(np.float32(0.05) * np.float32(0.01))
"""The scale of the convolutions' sums."""


class Network:
    """A builder of int8 networks over one image."""

    def __init__(self, *image: int) -> None:
        self.recipe = Recipe()
        self._generator = np.random.default_rng(5)
        self.image = self.recipe.input(Q8AS, (1, *image), 0.05, -11)

    def conv(self, given: int, depth: int, channels: int, side: int = 3, scheme: int = VALID, stride: int = 1) -> int:
        weights = self._generator.integers(-90, 90, (channels, side, side, depth))
        inputs = [
            given,
            self.recipe.constant(Q8AS, weights, 0.01, 0),
            self.recipe.constant(I32, self._generator.integers(-900, 900, channels), _ACCUMULATOR),
            *self.recipe.integers(scheme, stride, stride, 0),
        ]
        return self.recipe.operation(OperationType.CONV_2D, inputs, like(Q8AS))

    def depthwise(self, given: int, channels: int, side: int = 3, stride: int = 1) -> int:
        weights = self._generator.integers(-90, 90, (1, side, side, channels))
        inputs = [
            given,
            self.recipe.constant(Q8AS, weights, 0.01, 0),
            self.recipe.constant(I32, self._generator.integers(-900, 900, channels), _ACCUMULATOR),
            *self.recipe.integers(SAME, stride, stride, 1, 0),
        ]
        return self.recipe.operation(OperationType.DEPTHWISE_CONV_2D, inputs, like(Q8AS))

    def relu(self, given: int) -> int:
        return self.recipe.operation(OperationType.RELU, [given], like(Q8AS))

    def add(self, first: int, second: int) -> int:
        return self.recipe.operation(OperationType.ADD, [first, second, *self.recipe.integers(0)], like(Q8AS))

    def reshape(self, given: int, *shape: int) -> int:
        constant = self.recipe.constant(OperandType.TENSOR_INT32, shape)
        return self.recipe.operation(OperationType.RESHAPE, [given, constant], like(Q8AS))


def two_convs() -> ResolvedModel:
    """The RFC's example, smaller: an image of 12 x 12 x 8, and two convolutions of 3 x 3."""
    network = Network(12, 12, 8)
    first = network.conv(network.image, 8, 8)
    second = network.conv(first, 8, 4)
    return replace(network.recipe.build(second), names={network.image: "image", first: "conv_1", second: "conv_2"})


def residual() -> ResolvedModel:
    """A convolution with an activation, one on top of it, and the sum of the two."""
    network = Network(9, 7, 4)
    first = network.relu(network.conv(network.image, 4, 6, scheme=SAME))
    return network.recipe.build(network.add(network.conv(first, 6, 6, scheme=SAME), first))


def flattened() -> ResolvedModel:
    """A RESHAPE between two parts, and one to the output."""
    network = Network(6, 6, 4)
    flat = network.reshape(network.conv(network.image, 4, 2), 1, 1, 2, 16)
    return network.recipe.build(network.reshape(network.add(flat, flat), 4, 8))
