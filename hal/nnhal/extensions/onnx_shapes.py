"""Shapes that onnx infers: where ONNX Runtime computes others, and what onnx must not be asked about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

_OPAQUE = "nnhal.opaque"
"""A domain of which onnx knows nothing, and so infers nothing."""
_MOST_ROUNDS = 8
"""Rounds of inference; each finds nodes that read what the one before it has corrected."""
_MOST_AXES = 64
_LONGEST = 1 << 62
_LARGEST_BLOCK = 1 << 24
_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
_TYPES = ("dtype", "output_datatype", "stash_type", "to")
"""Attributes that are an element type."""
_ELEMENT_TYPES = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}


class UninferableNode(ValueError):  # noqa: N818 - named as what it is about
    """A node of which onnx and ONNX Runtime infer nothing: they never return, or end the process."""


def require_inferable(nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise UninferableNode for an attribute that shape inference does not survive, in subgraphs too."""
    for node in nodes:
        if node.domain in ("", "ai.onnx"):
            for attribute in node.attribute:
                _require_inferable(node, attribute)


def _require_inferable(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    name, number, expected = attribute.name, attribute.i, ""
    if attribute.HasField("g"):
        require_inferable(attribute.g.node)
    elif name == "equation" and node.op_type == "Einsum":
        if not _EQUATION.fullmatch("".join(attribute.s.decode(errors="replace").split())):
            expected = "letters and at most one '...' for each input, with commas between, and '->' before the output's"
    elif attribute.type != onnx.AttributeProto.INT or attribute.ref_attr_name:
        return
    elif name == "num_outputs" and node.op_type == "Split":
        if number != len(node.output):
            expected = f"{len(node.output)}, the number of its outputs"
    elif name == "batch_dims" and node.op_type == "GatherND":
        if not 0 <= number <= _MOST_AXES:
            expected = "a number of axes"
    elif name == "block_size" and node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        if not 0 <= number <= _LARGEST_BLOCK:
            expected = f"0 to {_LARGEST_BLOCK}"
    elif name == "axis":
        if abs(number) > _MOST_AXES:
            expected = f"at most {_MOST_AXES}, as there are axes"
    elif name in _TYPES and number not in _ELEMENT_TYPES:
        expected = "one of ONNX's element types"
    if expected:
        got = f"'{attribute.s.decode(errors='replace')}'" if name == "equation" else number
        raise UninferableNode(f"node '{node.name}' ({node.op_type}): {name} is {got}, expected {expected}")


def inferred_as_computed(
    model: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto]
) -> onnx.ModelProto:
    """Infer the shapes of a model by ``infer``, and again with dimensions as ONNX Runtime computes them.

    Raises UninferableNode, and as ``infer`` does.
    """
    require_inferable(model.graph.node)
    for node in model.graph.node:
        if node.op_type == "STFT" and all(attribute.name != "onesided" for attribute in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))  # the default, which onnx does not know
    inferred = infer(model)
    corrected: dict[str, onnx.ValueInfoProto] = {}
    for _ in range(_MOST_ROUNDS):
        found = _corrected(inferred.graph)
        if not found:
            break
        corrected |= found
        opaque = onnx.ModelProto()
        opaque.CopyFrom(model)
        opaque.opset_import.add(domain=_OPAQUE, version=1)
        for node in opaque.graph.node:
            if node.output and node.output[0] in corrected:
                node.domain = _OPAQUE
        known = {value.name: value for value in (*opaque.graph.value_info, *opaque.graph.output)}
        for name, value in corrected.items():
            (known[name] if name in known else opaque.graph.value_info.add()).CopyFrom(value)
        inferred = infer(opaque)
        for node in inferred.graph.node:
            if node.domain == _OPAQUE:
                node.domain = ""
        del inferred.opset_import[-1]
    return inferred


class _Known:
    """Facts about the values of a graph by their names."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        made_here = [
            (node.output[0], a.t)
            for node in graph.node
            for a in node.attribute
            if node.op_type == "Constant" and a.HasField("t")
        ]
        self.constants = {**{tensor.name: tensor for tensor in graph.initializer}, **dict(made_here)}

    def lengths(self, name: str) -> list[int]:
        """Return the dimensions of a value, 0 for each that is not known; empty if its rank is not."""
        if name in self.constants:
            return list(self.constants[name].dims)
        info = self.infos.get(name)
        return [] if info is None else [dim.dim_value for dim in info.type.tensor_type.shape.dim]


_Dims = Sequence[onnx.TensorShapeProto.Dimension]
_Attributes = Mapping[str, Any]


def _corrected(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return results, by name, with the dimensions that ONNX Runtime computes, where others are inferred."""
    nodes = [node for node in graph.node if node.op_type in _CORRECTIONS and not node.domain]
    if not nodes:
        return {}
    known = _Known(graph)
    found = {}
    for node in nodes:
        made = known.infos.get(node.output[0])
        if made is None or not made.type.tensor_type.HasField("shape"):
            continue
        shape = onnx.TensorShapeProto()
        shape.CopyFrom(made.type.tensor_type.shape)
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        _CORRECTIONS[node.op_type](node, attributes, known, shape.dim)
        if shape == made.type.tensor_type.shape:
            continue
        for name in node.output:  # the indices of a MaxPool too
            if name in known.infos:
                found[name] = onnx.ValueInfoProto(name=name, type=known.infos[name].type)
                found[name].type.tensor_type.shape.CopyFrom(shape)
    return found


def _pool(node: onnx.NodeProto, attributes: _Attributes, known: _Known, dims: _Dims) -> None:
    """Correct the output of a pool.

    With ``ceil_mode`` onnx counts a last window that begins behind the input and its pads; with SAME pads and dilations
    it takes the output to be as long as without dilations.
    """
    lengths = known.lengths(node.input[0])[2:]
    if len(attributes.get("kernel_shape", ())) != len(lengths):
        return
    for axis, (length, dim) in enumerate(zip(lengths, dims[2:], strict=False)):
        if length and dim.dim_value and (count := _windows(axis, length, attributes)) > 0:
            dim.dim_value = count


def _resize(node: onnx.NodeProto, attributes: _Attributes, known: _Known, dims: _Dims) -> None:
    """Correct the output of Resize or Upsample: ONNX Runtime multiplies lengths by factors in float32."""
    place = 2 if node.op_type == "Resize" and len(node.input) > 2 else 1  # 2 from opset 11 on
    factors = known.constants.get(node.input[place]) if len(node.input) > place else None
    lengths = known.lengths(node.input[0])
    axes = attributes.get("axes", range(len(lengths)))
    if factors is None or not lengths or factors.dims != [len(axes)]:
        return
    for axis, factor in zip(axes, numpy_helper.to_array(factors), strict=True):
        resized = factor * np.float32(lengths[axis])
        if lengths[axis] and dims[axis].dim_value and 0 <= resized < _LONGEST:
            dims[axis].dim_value = int(resized)


def _transposed_convolution(node: onnx.NodeProto, attributes: _Attributes, known: _Known, dims: _Dims) -> None:
    """Correct the output of ConvTranspose with SAME pads: none is longer than the input times the stride, but for the
    first and the last of a stride that the kernel leaves.
    """
    if not attributes.get("auto_pad", b"").startswith(b"SAME") or "output_shape" in attributes:
        return
    lengths = known.lengths(node.input[0])[2:]
    kernel = attributes.get("kernel_shape", known.lengths(node.input[1])[2:])
    for axis, (length, size, dim) in enumerate(zip(lengths, kernel, dims[2:], strict=False)):
        if length and size and dim.dim_value:
            dim.dim_value = _spread(axis, length, size, attributes)


def _sum(node: onnx.NodeProto, attributes: _Attributes, known: _Known, dims: _Dims) -> None:
    """Correct the output of Einsum: a length of 1 is that of the other inputs with this letter."""
    equation = "".join(attributes["equation"].decode().split())
    terms, arrow, result = equation.partition("->")
    if not arrow or "." in equation:
        return
    longest: dict[str, int] = {}
    for term, name in zip(terms.split(","), node.input, strict=False):
        for letter, length in zip(term, known.lengths(name), strict=False):
            longest[letter] = length if longest.get(letter, 1) == 1 else longest[letter]
    for letter, dim in zip(result, dims, strict=False):
        length = longest.get(letter, 1)
        if dim.dim_value == 1 and length != 1:
            dim.Clear()
            if length:
                dim.dim_value = length


_CORRECTIONS = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "ConvTranspose": _transposed_convolution,
    "Einsum": _sum,
}


def _spread(axis: int, length: int, size: int, attributes: _Attributes) -> int:
    """Return the length of a spatial axis of ConvTranspose with SAME pads."""
    stride, dilation, more = (
        attributes[name][axis] if attributes.get(name) else default
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    return int(min((length - 1) * stride + more + (size - 1) * dilation + 1, length * stride))


def _windows(axis: int, length: int, attributes: _Attributes) -> int:
    """Return the number of windows along a spatial axis."""
    kernel = attributes["kernel_shape"]
    size: int = kernel[axis]
    stride: int = attributes.get("strides", [1] * len(kernel))[axis]
    extent = (size - 1) * attributes.get("dilations", [1] * len(kernel))[axis] + 1
    before, after = (attributes.get("pads", [0] * 2 * len(kernel))[axis + n * len(kernel)] for n in range(2))
    if attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        before, after = total // 2, total - total // 2
    room: int = length + before + after - extent
    if not attributes.get("ceil_mode"):
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= length + before else count
