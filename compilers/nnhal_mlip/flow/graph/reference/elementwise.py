"""Operators of one element at a time, and those that scale or normalise along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowNode


def relu(data: Array) -> Array:
    """Zero for what is negative."""
    return np.maximum(data, np.float32(0))


def sigmoid(data: Array) -> Array:
    """1 / (1 + exp(-x)), by the hyperbolic tangent, which cannot overflow."""
    half = np.float32(0.5)
    return np.asarray(half * np.tanh(half * data) + half)


def clip(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """What is outside a range becomes its nearer end."""
    return np.minimum(np.maximum(inputs[0], np.float32(node.real("a_min"))), np.float32(node.real("a_max")))


def leaky_relu(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """What is negative is multiplied by alpha."""
    data = inputs[0]
    return np.where(data < 0, np.float32(node.real("alpha")) * data, data)


def softmax(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """exp(x), divided by its sum along an axis."""
    axis = node.integer("axis")
    powers = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def bias_add(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Add a vector along an axis."""
    return np.asarray(inputs[0] + _along(inputs[1], inputs[0].ndim, node.integer("axis")))


def batch_norm(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta, along an axis."""
    data, *parameters = inputs
    axis = node.integer("axis")
    gamma, beta, mean, variance = (_along(each, data.ndim, axis) for each in parameters)
    return np.asarray((data - mean) / np.sqrt(variance + np.float32(node.real("epsilon"))) * gamma + beta)


def _along(vector: Array, rank: int, axis: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)
