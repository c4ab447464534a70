"""From operations of the extension nnhal.onnx to nodes of a flow graph: the user's own nodes, with their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnhal_mlip.command.onnx_nodes import elementwise, images, linear, movement
from nnhal_mlip.command.onnx_nodes.node_import import NodeImport
from nnhal_mlip.flow.graph.flow_graph import Evaluate

_SPLIT = "Split"
"""The only one of which others may read more than the first result."""

CONVERTERS: Mapping[str, Callable[[NodeImport], bool]] = {
    "Add": elementwise.add,
    "AveragePool": images.average_pool,
    "BatchNormalization": elementwise.batch_normalization,
    "Clip": elementwise.clip,
    "Concat": movement.concat,
    "Conv": images.conv,
    "ConvTranspose": images.conv_transpose,
    "Div": elementwise.divide,
    "Erf": elementwise.erf,
    "Flatten": movement.flatten,
    "Gelu": elementwise.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": images.global_average_pool,
    "GlobalMaxPool": images.global_max_pool,
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": elementwise.hard_swish,
    "LeakyRelu": elementwise.leaky_relu,
    "MatMul": linear.matmul,
    "MaxPool": images.max_pool,
    "Mul": elementwise.multiply,
    "PRelu": elementwise.prelu,
    "Pad": movement.pad,
    "ReduceMean": movement.reduce_mean,
    "Relu": elementwise.relu,
    "Reshape": movement.reshape,
    "Resize": images.resize,
    "Sigmoid": elementwise.sigmoid,
    "Slice": movement.slice_axes,
    "Softmax": elementwise.softmax,
    _SPLIT: movement.split,
    "Squeeze": movement.squeeze,
    "Sub": elementwise.subtract,
    "Sum": elementwise.total,
    "Tanh": elementwise.tanh,
    "Transpose": movement.transpose,
    "Unsqueeze": movement.unsqueeze,
}
"""A converter returns False, before it has added anything, if Relay's operator cannot do what the node asks."""


_DEQUANTIZE = "DequantizeLinear"


def import_node(each: NodeImport, evaluation: Evaluate) -> tuple[str, ...]:
    """Add a node, and return the values of its results.

    What Relay has no operator for becomes ``onnx.<operator>``, which only the host has, as do images of other than two
    axes, types other than float32 and float16, and results of unknown shape.
    """
    if each.op_type == _DEQUANTIZE and len(each.constants) == len(each.inputs):
        (values,) = evaluation([])
        return (each.builder.constant(each.labels[each.outputs[0]], values),)
    convert = CONVERTERS.get(each.op_type)
    others_read = each.op_type != _SPLIT and any(name in each.results for name in each.outputs[1:])
    if convert is None or others_read or not each.is_plain() or not convert(each):
        return _for_the_host(each, evaluation)
    return tuple(each.names[name] for name in each.results)


def _for_the_host(each: NodeImport, evaluation: Evaluate) -> tuple[str, ...]:
    first = each.builder.add(
        f"onnx.{each.op_type}",
        [value for name, value in each.names.items() if name not in each.constants],
        sources=each.sources,
        evaluate=evaluation,
        results=list(each.results.values()),
        names=[each.labels[name] for name in each.results],
    )
    return each.builder.outputs_of(first)
