"""Compute nodes and graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue, table_of
from nnhal_mlip.flow.graph.operators import TABLES, Operator, image_axes, permutation
from nnhal_mlip.flow.graph.reference import movement
from nnhal_mlip.flow.graph.reference.images import ImageWindows, channels_last, laid_out
from nnhal_mlip.flow.graph.reference.movement import mean_of
from nnhal_mlip.program.tables import looked_up


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


def conv2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Convolve images with weights, group by group."""
    layout = node.text("data_layout")
    data = channels_last(inputs[0], layout)
    weight = inputs[1].transpose(permutation(node.text("kernel_layout"), "OHWI"))
    outputs, height, width, inner = weight.shape
    windows = ImageWindows(node, (height, width), (data.shape[1], data.shape[2]))
    padded = windows.padded(data, 0.0)
    groups = node.integer("groups")
    if inner == 1 and groups > 1:
        result = _depthwise(windows, padded, weight[..., 0])
    else:
        each = outputs // groups
        parts = [
            _product(windows, padded[..., g * inner : (g + 1) * inner], weight[g * each : (g + 1) * each])
            for g in range(groups)
        ]
        result = parts[0] if groups == 1 else np.concatenate(parts, axis=-1)
    return laid_out(result, layout)


def _product(windows: ImageWindows, padded: Array, weight: Array) -> Array:
    outputs = weight.shape[0]
    batch, channels = padded.shape[0], padded.shape[-1]
    pieces = [piece for _, _, piece in windows.shifted(padded)]
    columns = pieces[0] if len(pieces) == 1 else np.stack(pieces, axis=3)
    matrix = columns.reshape(-1, len(pieces) * channels)
    return (matrix @ weight.reshape(outputs, -1).T).reshape(batch, windows.rows, windows.columns, outputs)


def _depthwise(windows: ImageWindows, padded: Array, weight: Array) -> Array:
    repeats = weight.shape[0] // padded.shape[-1]
    source = padded if repeats == 1 else np.repeat(padded, repeats, axis=-1)
    result = np.zeros((padded.shape[0], windows.rows, windows.columns, weight.shape[0]), padded.dtype)
    for row, column, piece in windows.shifted(source):
        result += piece * weight[:, row, column]
    return result


def relu(data: Array) -> Array:
    return np.maximum(data, np.float32(0))


def conv2d_transpose(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Add every pixel's scaled filter to the result: the gradient of a convolution."""
    layout, groups = node.text("data_layout"), node.integer("groups")
    data = channels_last(inputs[0], layout)
    weight = inputs[1].transpose(permutation(node.text("kernel_layout"), "HWIO"))
    (height, width), (down, right) = weight.shape[:2], node.integers("strides")
    (row_step, column_step), (top, left, bottom, below) = node.integers("dilation"), node.integers("padding")
    batch, rows, columns, channels = data.shape
    size = [(rows - 1) * down + (height - 1) * row_step + 1, (columns - 1) * right + (width - 1) * column_step + 1]
    more = node.integers("output_padding")
    result = np.zeros((batch, size[0] + more[0], size[1] + more[1], weight.shape[3] * groups), np.float32)
    inner, outer = channels // groups, weight.shape[3]
    for row, column, group in np.ndindex(height, width, groups):
        part = slice(group * inner, (group + 1) * inner)
        seen = result[
            :,
            row * row_step : row * row_step + (rows - 1) * down + 1 : down,
            column * column_step : column * column_step + (columns - 1) * right + 1 : right,
            group * outer : (group + 1) * outer,
        ]
        seen += data[..., part] @ weight[row, column, part]
    return laid_out(result[:, top : result.shape[1] - bottom, left : result.shape[2] - below], layout)


def clip(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Return what is outside a range becomes its nearer end."""
    return np.minimum(np.maximum(inputs[0], np.float32(node.real("a_min"))), np.float32(node.real("a_max")))


def table(node: FlowNode, inputs: Sequence[Array]) -> Array:
    return looked_up(table_of(node), inputs[0])


def prelu(data: Array, alpha: Array) -> Array:
    return np.where(data < 0, alpha * data, data)


def softmax(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """exp(x), divided by its sum along an axis."""
    axis = node.integer("axis")
    powers = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def layer_norm(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """(data - mean) / sqrt(variance + epsilon) along an axis."""
    axis = node.integer("axis")
    distance = inputs[0] - inputs[0].mean(axis=axis, keepdims=True)
    variance = np.mean(distance * distance, axis=axis, keepdims=True)
    return np.asarray(distance / np.sqrt(variance + np.float32(node.real("epsilon"))))


def batch_matmul(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """Products of the matrices in the last two axes."""
    turns = node.integer("transpose_a"), node.integer("transpose_b")
    left, right = (each.swapaxes(-1, -2) if turn else each for each, turn in zip(inputs, turns, strict=True))
    return np.asarray(left @ right)


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


def max_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The maximum of each window, without its padding."""
    windows, data = _windows(node, inputs[0])
    pieces = [piece for _, _, piece in windows.shifted(windows.padded(data, -np.inf))]
    result = pieces[0].copy()
    for piece in pieces[1:]:
        np.maximum(result, piece, out=result)
    return laid_out(result, node.text("layout"))


def avg_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The mean of each window, without its padding unless that is counted; never of what lies beyond the padding."""
    windows, data = _windows(node, inputs[0])
    total = sum(piece for _, _, piece in windows.shifted(windows.padded(data, 0.0)))
    counted = float(bool(node.integer("count_include_pad")))
    inside = windows.padded(np.ones((1, *data.shape[1:3], 1), np.float32), counted, beyond=0.0)
    count = sum(piece for _, _, piece in windows.shifted(inside))
    return laid_out(np.asarray(total / count), node.text("layout"))


def global_avg_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The mean of each image, channel by channel."""
    return mean_of(inputs[0], image_axes(node.text("layout")), keepdims=True)


def global_max_pool2d(node: FlowNode, inputs: Sequence[Array]) -> Array:
    """The maximum of each image, channel by channel."""
    return np.asarray(inputs[0].max(axis=image_axes(node.text("layout")), keepdims=True))


def _windows(node: FlowNode, images: Array) -> tuple[ImageWindows, Array]:
    data = channels_last(images, node.text("layout"))
    height, width = node.integers("pool_size")
    return ImageWindows(node, (height, width), (data.shape[1], data.shape[2]), bool(node.integer("ceil_mode"))), data


_PLAIN: Mapping[str, Callable[..., Array]] = {
    Operator.ADD: np.add,
    Operator.BATCH_FLATTEN: movement.batch_flatten,
    Operator.COPY: movement.copy,
    Operator.DENSE: movement.dense,
    Operator.DIVIDE: np.divide,
    Operator.DROPOUT: movement.copy,
    Operator.MULTIPLY: np.multiply,
    Operator.PRELU: prelu,
    Operator.RELU: relu,
    Operator.SUBTRACT: np.subtract,
}
"""Operators without attributes: from each input to the result."""

_KERNELS: Mapping[str, Callable[[FlowNode, Sequence[Array]], Array]] = {
    Operator.AVG_POOL2D: avg_pool2d,
    Operator.BATCH_MATMUL: batch_matmul,
    Operator.BATCH_NORM: batch_norm,
    Operator.BIAS_ADD: bias_add,
    Operator.CLIP: clip,
    Operator.CONCATENATE: movement.concatenate,
    Operator.CONV2D: conv2d,
    Operator.CONV2D_TRANSPOSE: conv2d_transpose,
    Operator.GLOBAL_AVG_POOL2D: global_avg_pool2d,
    Operator.GLOBAL_MAX_POOL2D: global_max_pool2d,
    Operator.LAYER_NORM: layer_norm,
    Operator.LAYOUT_TRANSFORM: movement.layout_transform,
    Operator.MAX_POOL2D: max_pool2d,
    Operator.MEAN: movement.mean,
    Operator.PAD: movement.pad,
    Operator.RESHAPE: movement.reshape,
    Operator.SOFTMAX: softmax,
    Operator.SQUEEZE: movement.squeeze,
    Operator.STRIDED_SLICE: movement.strided_slice,
    Operator.TRANSPOSE: movement.transpose,
    Operator.UPSAMPLING: movement.upsampling,
    **dict.fromkeys(TABLES, table),
}
