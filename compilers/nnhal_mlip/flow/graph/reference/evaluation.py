"""Compute nodes and graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.graph.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.graph.reference import convolution, elementwise, movement, pooling

_PLAIN: Mapping[str, Callable[..., Array]] = {
    Operator.ADD: np.add,
    Operator.BATCH_FLATTEN: movement.batch_flatten,
    Operator.COPY: movement.copy,
    Operator.DENSE: movement.dense,
    Operator.DIVIDE: np.divide,
    Operator.DROPOUT: movement.copy,
    Operator.MULTIPLY: np.multiply,
    Operator.RELU: elementwise.relu,
    Operator.SIGMOID: elementwise.sigmoid,
    Operator.SUBTRACT: np.subtract,
    Operator.TANH: np.tanh,
}
"""Operators without attributes: from each input to the result."""

_KERNELS: Mapping[str, Callable[[FlowNode, Sequence[Array]], Array]] = {
    Operator.AVG_POOL2D: pooling.avg_pool2d,
    Operator.BATCH_NORM: elementwise.batch_norm,
    Operator.BIAS_ADD: elementwise.bias_add,
    Operator.CLIP: elementwise.clip,
    Operator.CONCATENATE: movement.concatenate,
    Operator.CONV2D: convolution.conv2d,
    Operator.GLOBAL_AVG_POOL2D: pooling.global_avg_pool2d,
    Operator.GLOBAL_MAX_POOL2D: pooling.global_max_pool2d,
    Operator.LAYOUT_TRANSFORM: movement.layout_transform,
    Operator.LEAKY_RELU: elementwise.leaky_relu,
    Operator.MAX_POOL2D: pooling.max_pool2d,
    Operator.MEAN: movement.mean,
    Operator.PAD: movement.pad,
    Operator.RESHAPE: movement.reshape,
    Operator.SOFTMAX: elementwise.softmax,
    Operator.SQUEEZE: movement.squeeze,
    Operator.TRANSPOSE: movement.transpose,
}


def evaluate(graph: FlowGraph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute every value of a graph, by name, constants and inputs included.

    Values are float32: float16 is widened, and integers with scales are dequantised, in ``inputs`` too. Results are
    not quantised again. Values of other types stay as they are. Raises FlowError if an input is missing or has another
    shape than the graph says.
    """
    if inputs.keys() != set(graph.inputs):
        raise FlowError(f"got inputs {sorted(inputs)}, expected {sorted(graph.inputs)}")
    found = {name: _real(array, graph.values[name]) for name, array in graph.constants.items()}
    for name in graph.inputs:
        _check_input(name, inputs[name], graph.values[name])
        found[name] = _real(inputs[name], graph.values[name])
    for node in graph.nodes:
        found.update(zip(node.outputs, compute(graph, node, [found[name] for name in node.inputs]), strict=True))
    return found


def compute(graph: FlowGraph, node: FlowNode, inputs: Sequence[Array]) -> list[Array]:
    """Compute the results of a node in float32, from inputs as ``evaluate`` has them.

    An operator that only the host has gets floats of the width that the graph says, but quantised values as float32.
    """
    with np.errstate(all="ignore"):  # infinities and NaN are results like others
        if node.operator in _PLAIN:
            return [_PLAIN[node.operator](*inputs)]
        if node.operator in _KERNELS:
            return [_KERNELS[node.operator](node, inputs)]
    if node.evaluate is None:
        raise FlowError(f"node '{node.name}' ({node.operator}): got no way to compute it, expected evaluate")
    given = [_declared(array, graph.values[name]) for array, name in zip(inputs, node.inputs, strict=True)]
    results = node.evaluate(given)
    return [_real(array, graph.values[name]) for array, name in zip(results, node.outputs, strict=True)]


def _check_input(name: str, array: Array, value: FlowValue) -> None:
    fits = array.ndim == value.rank and all(
        length in (0, got) for got, length in zip(array.shape, value.shape, strict=True)
    )
    if not fits:
        raise FlowError(f"input '{name}': got shape {describe(array.shape)}, expected {describe(value.shape)}")


def _real(array: Array, value: FlowValue) -> Array:
    """Return float16 and quantised integers as float32, other values unchanged."""
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if not value.scales or array.dtype.kind == "f":
        return array
    shape = [1] * array.ndim
    if len(value.scales) > 1:
        shape[value.axis] = -1
    return np.asarray(array.astype(np.float32) * np.array(value.scales, np.float32).reshape(shape))


def _declared(array: Array, value: FlowValue) -> Array:
    if array.dtype.kind == "f" and value.element_type.kind == "f":
        return array.astype(value.element_type, copy=False)
    return array
