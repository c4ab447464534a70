"""Lengths that ONNX's inference rounds otherwise than ONNX Runtime, whose lengths tensors have when they run.

A window of a pool in ceil_mode may not begin behind the input, and a Resize multiplies in float32. The inference sees
such a node with attributes or factors by which it finds what ONNX Runtime computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

_POOLS = ("AveragePool", "LpPool", "MaxPool")
_RESIZES = {"Resize": 2, "Upsample": 1}
"""The place of the factors, from opset 11 on for Resize."""


def may_differ(graph: onnx.GraphProto) -> bool:
    """Return whether a graph has such nodes at all."""
    return any(node.op_type in _RESIZES or _ceils(node) for node in graph.node)


def stand_ins(graph: onnx.GraphProto) -> Iterator[tuple[int, onnx.NodeProto, onnx.TensorProto | None]]:
    """Yield the place of each node for which a length is inferred that ONNX Runtime does not compute, with a node that
    the inference is to see instead, and what it reads.
    """
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {value.name: value.type.tensor_type.shape for value in values if value.type.tensor_type.HasField("shape")}
    made_here = [(node.output[0], a.t) for node in graph.node if node.op_type == "Constant" for a in node.attribute]
    constants = {**{tensor.name: tensor for tensor in graph.initializer}, **dict(made_here)}
    for index, node in enumerate(graph.node):
        if node.op_type not in _RESIZES and not _ceils(node):
            continue
        given, made = shapes.get(node.input[0]), shapes.get(node.output[0])
        if given is None or made is None or not all(dim.dim_value for dim in (*given.dim, *made.dim)):
            continue
        lengths, inferred = ([dim.dim_value for dim in shape.dim] for shape in (given, made))
        if node.op_type in _POOLS:
            stand_in = _pool(node, lengths[2:], inferred[2:])
            if stand_in is not None:
                yield index, stand_in, None
        else:
            yield from ((index, *found) for found in _resize(node, lengths, inferred, constants))


def _ceils(node: onnx.NodeProto) -> bool:
    return node.op_type in _POOLS and any(a.name == "ceil_mode" and a.i for a in node.attribute)


def _pool(node: onnx.NodeProto, lengths: Sequence[int], inferred: Sequence[int]) -> onnx.NodeProto | None:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        return None
    rank = len(lengths)
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1] * rank)
    dilations, pads = attributes.get("dilations", [1] * rank), attributes.get("pads", [0] * 2 * rank)
    counts, ends = [], []
    for length, size, stride, step, begin, count in zip(
        lengths, kernel, strides, dilations, pads[:rank], inferred, strict=True
    ):
        counts.append(count - ((count - 1) * stride >= length + begin))
        ends.append(max((counts[-1] - 1) * stride + (size - 1) * step + 1 - length - begin, 0))
    if counts == [*inferred]:
        return None
    replaced = {**attributes, "ceil_mode": 0, "pads": [*pads[:rank], *ends]}
    return helper.make_node(node.op_type, node.input, node.output, node.name, domain=node.domain, **replaced)


def _resize(
    node: onnx.NodeProto, lengths: Sequence[int], inferred: Sequence[int], constants: dict[str, onnx.TensorProto]
) -> Iterator[tuple[onnx.NodeProto, onnx.TensorProto]]:
    place = 1 if len(node.input) == 2 else _RESIZES[node.op_type]
    factors = constants.get(node.input[place]) if len(node.input) > place else None
    axes = next((a.ints for a in node.attribute if a.name == "axes"), range(len(lengths)))
    if factors is None or factors.dims != [len(axes)]:
        return
    scales = numpy_helper.to_array(factors)
    resized = {
        axis % len(lengths): int(scale * np.float32(lengths[axis])) for axis, scale in zip(axes, scales, strict=True)
    }
    if all(inferred[axis] == length for axis, length in resized.items()):
        return
    name = f"{node.output[0]} has these factors"
    wanted = [(resized[axis % len(lengths)] + 0.25) / lengths[axis] for axis in axes]
    stand_in = onnx.NodeProto()
    stand_in.CopyFrom(node)
    stand_in.input[place] = name
    yield stand_in, numpy_helper.from_array(np.array(wanted, np.float32), name)
