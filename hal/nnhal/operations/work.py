"""Work of operations: multiply-adds, for models of a device's speed.

Each function takes the dimensions of all inputs, in which unknown lengths and missing axes are 1, and the number of
elements of the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from nnhal.types.layout import Dimensions

Work: TypeAlias = Callable[[Sequence[Dimensions], int], int]


def of_filters(inputs: Sequence[Dimensions], written: int) -> int:
    """Count those of filters of [outputs, height, width, inputs]."""
    return written * prod(inputs[1][1:])


def of_depthwise_filters(inputs: Sequence[Dimensions], written: int) -> int:
    """Count those of filters of [1, height, width, outputs]."""
    return written * prod(inputs[1][1:3])


def of_transposed_filters(inputs: Sequence[Dimensions], _: int) -> int:
    """Count those of filters of [outputs, height, width, inputs] that each element of the input scales."""
    return prod(inputs[0]) * prod(inputs[1][:3])


def of_matrix(inputs: Sequence[Dimensions], written: int) -> int:
    """Count those of a matrix of [outputs, inputs]."""
    return written * inputs[1][-1]


def of_product(inputs: Sequence[Dimensions], written: int) -> int:
    """Count those of a product of matrices."""
    return written * inputs[0][-1]


def of_filtered_features(inputs: Sequence[Dimensions], _: int) -> int:
    """Count those of a dense filter for each feature."""
    return prod(inputs[0]) * inputs[1][0]


def of_gates(inputs: Sequence[Dimensions], _: int) -> int:
    """Count those of a cell that applies all of its weights at each step, which are axis 0 of input 0."""
    return inputs[0][0] * sum(prod(weights) for weights in inputs[1:])
