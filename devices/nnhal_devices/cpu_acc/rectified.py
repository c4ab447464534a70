"""Quantised convolutions with a Relu before their quantisation, in the form that ONNX Runtime has a kernel for.

It computes Relu by the quantisation alone if 0 is the least quantised number, and leaves the convolution in float if it
is not. As quantisation is monotone, and 0 becomes the zero point, Relu may as well clamp the quantised numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from nnhal.arrays import Array
from nnhal_devices.cpu_acc.messages import has_branches

FIRST_OPSET = 12
"""The first in which Clip takes bytes."""
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def clamp_after_quantization(graph: GraphProto, constants: Mapping[str, Array], name: Callable[[], str]) -> None:
    """Change a graph. ``constants`` are given to it beside its own; ``name`` gives new names for tensors."""
    if not any(node.op_type == "QuantizeLinear" for node in graph.node) or has_branches(graph):
        return
    makers = {output: node for node in graph.node for output in node.output}
    uses = Counter([read for node in graph.node for read in node.input] + [value.name for value in graph.output])
    zeros = {own: values for own, values in constants.items() if values.size == 1}
    single = (tensor for tensor in graph.initializer if prod(tensor.dims) == 1)
    zeros.update((tensor.name, numpy_helper.to_array(tensor)) for tensor in single)
    nodes: list[NodeProto] = []
    dropped: list[str] = []
    for node in graph.node:
        relu = _relu_of(node, makers, uses)
        zero = None if relu is None or len(node.input) < 3 else zeros.get(node.input[2])
        if relu is None or zero is None or zero.dtype not in _BYTES or zero.min() == np.iinfo(zero.dtype).min:
            nodes.append(node)
            continue
        dropped.append(relu.output[0])
        quantized, bound = name(), name()
        graph.initializer.append(numpy_helper.from_array(zero.reshape(()), bound))
        made = NodeProto()
        made.CopyFrom(node)
        made.input[0], made.output[0] = relu.input[0], quantized
        nodes += [made, helper.make_node("Clip", [quantized, bound], node.output, relu.name)]
    if dropped:
        kept = [node for node in nodes if not (node.op_type == "Relu" and node.output[0] in dropped)]
        del graph.node[:]
        graph.node.extend(kept)


def _relu_of(node: NodeProto, makers: dict[str, NodeProto], uses: Counter[str]) -> NodeProto | None:
    """The Relu between a convolution of quantised numbers and a node that quantises; None if there is none."""
    relu = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" and not node.domain else None
    if relu is None or relu.op_type != "Relu" or relu.domain or uses[relu.output[0]] != 1:
        return None
    conv = makers.get(relu.input[0])
    if conv is None or conv.op_type != "Conv" or conv.domain or uses[conv.output[0]] != 1:
        return None
    sources = [makers.get(name) for name in conv.input[:2]]
    return relu if all(source is not None and source.op_type == "DequantizeLinear" for source in sources) else None
