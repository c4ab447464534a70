"""Limits of the distance between two computations of the same sums, from the number of terms and their size."""

from __future__ import annotations

from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.types import Model, Operand, OperandLifeTime, OperationType
from nnhal.types.layout import Dimensions

_EPSILON = float(np.finfo(np.float32).eps)


def assert_sums_agree(got: Array, expected: Array, terms: int, magnitudes: Array) -> None:
    """Check float32 sums of products against exact ones, whatever the order in which a processor's kernel adds.

    ``magnitudes`` are the same sums of the absolute values of weights, inputs and biases, of which ``terms`` are added
    for each. Each addition rounds a partial sum, and none exceeds that magnitude.
    """
    allowed = _EPSILON * terms * magnitudes
    off = np.abs(got - expected)
    assert (off <= allowed).all(), f"{(off > allowed).sum()} of {off.size} sums are off, by up to {off.max():.3g}"


def tolerance_of(model: Model, expected: Array) -> float:
    """Return how far a network's result may lie from the expected one if its sums are added in another order.

    The largest result stands for the size of the sums within: the absolute values of weights would say, after some
    layers, that anything may come out. What is known of one sum has ``assert_sums_agree``.
    """
    return _EPSILON * terms_of(model) * float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0))


def terms_of(model: Model) -> int:
    """Return how many terms a value of the outputs is made of, operation after operation, at most.

    An operation with weights adds as many products for each value as there are weights for one channel of its output.
    """
    main = model.main
    operands = main.operands
    return sum(
        max(
            (
                _terms(operation.type, operands[index].dimensions)
                for index in operation.inputs
                if _is_constant(operands[index])
            ),
            default=1,
        )
        for operation in main.operations
    )


def _is_constant(operand: Operand) -> bool:
    return operand.lifetime in (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_POOL)


def _terms(operation: int, weights: Dimensions) -> int:
    last = -1 if operation == OperationType.DEPTHWISE_CONV_2D else None  # its last axis is the channel
    return prod(weights[1:last])
