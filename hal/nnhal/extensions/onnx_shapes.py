"""Shapes that onnx infers: where ONNX Runtime computes others, and what onnx must not be asked about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

_RESIZES = {"Resize": 2, "Upsample": 1}
"""The place of the factors, from opset 11 on for Resize."""
_POOLS = ("AveragePool", "LpPool", "MaxPool")
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
        found: dict[str, onnx.ValueInfoProto] = {}
        for correct in _CORRECTIONS:
            found |= correct(inferred.graph)
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


def _pooled_otherwise(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return outputs of pools, by name, with the dimensions that ONNX Runtime computes, where others are inferred.

    With ``ceil_mode`` onnx counts a last window that begins behind the input and its pads; with SAME pads and dilations
    it takes the output to be as long as without dilations.
    """
    pools = [node for node in graph.node if node.op_type in _POOLS and not node.domain]
    if not pools:
        return {}
    infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    found = {}
    for node in pools:
        given, made = infos.get(node.input[0]), infos.get(node.output[0])
        if given is None or made is None or not made.type.tensor_type.HasField("shape"):
            continue
        lengths = [dim.dim_value for dim in given.type.tensor_type.shape.dim][2:]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if len(attributes.get("kernel_shape", ())) != len(lengths):
            continue
        corrected = onnx.ValueInfoProto()
        corrected.CopyFrom(made)
        dims = corrected.type.tensor_type.shape.dim[2:]
        for axis, (length, dim) in enumerate(zip(lengths, dims, strict=False)):
            if length and dim.dim_value and (count := _windows(axis, length, attributes)) > 0:
                dim.dim_value = count
        if corrected != made:
            for name in node.output:
                value = corrected if name == node.output[0] else infos.get(name)
                if value is not None:
                    found[name] = onnx.ValueInfoProto(name=name, type=value.type)
                    found[name].type.tensor_type.shape.CopyFrom(corrected.type.tensor_type.shape)
    return found


def _resized_otherwise(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return outputs of Resize and Upsample, likewise: ONNX Runtime multiplies lengths by factors in float32."""
    resizes = [node for node in graph.node if node.op_type in _RESIZES and not node.domain]
    if not resizes:
        return {}
    infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    made_here = [(node.output[0], a.t) for node in graph.node if node.op_type == "Constant" for a in node.attribute]
    constants = {**{tensor.name: tensor for tensor in graph.initializer}, **dict(made_here)}
    found = {}
    for node in resizes:
        place = 1 if len(node.input) == 2 else _RESIZES[node.op_type]
        factors = constants.get(node.input[place]) if len(node.input) > place else None
        given, made = infos.get(node.input[0]), infos.get(node.output[0])
        if factors is None or given is None or made is None or not made.type.tensor_type.HasField("shape"):
            continue
        lengths = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        axes = next((a.ints for a in node.attribute if a.name == "axes"), range(len(lengths)))
        if factors.dims != [len(axes)]:
            continue
        corrected = onnx.ValueInfoProto()
        corrected.CopyFrom(made)
        for axis, factor in zip(axes, numpy_helper.to_array(factors), strict=True):
            dim = corrected.type.tensor_type.shape.dim[axis]
            resized = factor * np.float32(lengths[axis])
            if lengths[axis] and dim.dim_value and 0 <= resized < _LONGEST:
                dim.dim_value = int(resized)
        if corrected != made:
            found[made.name] = corrected
    return found


def _transposed(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return outputs of ConvTranspose with SAME pads, likewise: none is longer than the input times the stride, but for
    the first and the last of a stride that the kernel leaves.
    """
    nodes = [node for node in graph.node if node.op_type == "ConvTranspose" and not node.domain]
    if not nodes:
        return {}
    infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    known = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    found = {}
    for node in nodes:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given, made, weights = (infos.get(name) for name in (node.input[0], node.output[0], node.input[1]))
        if given is None or made is None or not made.type.tensor_type.HasField("shape"):
            continue
        if not attributes.get("auto_pad", b"").startswith(b"SAME") or "output_shape" in attributes:
            continue
        lengths = [dim.dim_value for dim in given.type.tensor_type.shape.dim][2:]
        declared = [] if weights is None else [dim.dim_value for dim in weights.type.tensor_type.shape.dim]
        kernel = list(attributes.get("kernel_shape", known.get(node.input[1], declared)[2:]))
        corrected = onnx.ValueInfoProto()
        corrected.CopyFrom(made)
        dims = corrected.type.tensor_type.shape.dim[2:]
        for axis, (length, size, dim) in enumerate(zip(lengths, kernel, dims, strict=False)):
            if length and size and dim.dim_value:
                dim.dim_value = _spread(axis, length, size, attributes)
        if corrected != made:
            found[made.name] = corrected
    return found


def _spread(axis: int, length: int, size: int, attributes: dict[str, Any]) -> int:
    """Return the length of a spatial axis of ConvTranspose with SAME pads."""
    stride, dilation, more = (
        attributes[name][axis] if attributes.get(name) else default
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    return int(min((length - 1) * stride + more + (size - 1) * dilation + 1, length * stride))


def _windows(axis: int, length: int, attributes: dict[str, Any]) -> int:
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


def _summed(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Return outputs of Einsum, likewise: a length of 1 is that of the other inputs with this letter."""
    nodes = [node for node in graph.node if node.op_type == "Einsum" and not node.domain]
    if not nodes:
        return {}
    infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    known = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    found = {}
    for node in nodes:
        equation = "".join(node.attribute[0].s.decode().split())
        terms, arrow, result = equation.partition("->")
        made = infos.get(node.output[0])
        if not arrow or "." in equation or made is None or not made.type.tensor_type.HasField("shape"):
            continue
        longest: dict[str, int] = {}
        for term, name in zip(terms.split(","), node.input, strict=False):
            given = infos.get(name)
            dims = known.get(name, [] if given is None else [d.dim_value for d in given.type.tensor_type.shape.dim])
            for letter, length in zip(term, dims, strict=False):
                longest[letter] = length if longest.get(letter, 1) == 1 else longest[letter]
        corrected = onnx.ValueInfoProto()
        corrected.CopyFrom(made)
        for letter, dim in zip(result, corrected.type.tensor_type.shape.dim, strict=False):
            length = longest.get(letter, 1)
            if dim.dim_value == 1 and length != 1:
                dim.Clear()
                if length:
                    dim.dim_value = length
        if corrected != made:
            found[made.name] = corrected
    return found


_CORRECTIONS = (_pooled_otherwise, _resized_otherwise, _transposed, _summed)
