"""ZipMap, the last node of classifiers from scikit-learn's converter: maps from classes to probabilities.

For those who want tensors the probabilities themselves take the place of the maps, under the same name.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

_DOMAIN = "ai.onnx.ml"
_LABELS = ("classlabels_strings", "classlabels_int64s")


def without_zipmaps(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose outputs have the probabilities instead of maps of them, or the model if it has no such."""
    outputs = {value.name: value for value in model.graph.output}
    read = {name for node in model.graph.node for name in node.input}
    found = {
        index: node
        for index, node in enumerate(model.graph.node)
        if node.op_type == "ZipMap"
        and node.domain == _DOMAIN
        and len(node.input) == len(node.output) == 1
        and node.output[0] in outputs
        and node.output[0] not in read
    }
    if not found:
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for index in found:
        replacement = changed.graph.node[index]
        replacement.ClearField("attribute")
        replacement.op_type, replacement.domain = "Identity", ""
    for value in changed.graph.output:
        zipped = [node for node in found.values() if node.output[0] == value.name]
        if zipped:
            value.CopyFrom(_probabilities(value.name, zipped[0]))
    if not any(entry.domain in ("", "ai.onnx") for entry in changed.opset_import):
        changed.opset_import.add(domain="", version=13)
    return changed


def _probabilities(name: str, zipmap: onnx.NodeProto) -> onnx.ValueInfoProto:
    """An output of [items, classes]."""
    labels = [a for a in zipmap.attribute if a.name in _LABELS]
    count = sum(len(a.strings) + len(a.ints) for a in labels)
    return onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, count or None])


def kind_of(proto: onnx.TypeProto | None) -> str:
    """Return what a value is that is no tensor, such as "a sequence of maps"; empty for a tensor."""
    kind = None if proto is None else proto.WhichOneof("value")
    if proto is None or kind == "tensor_type":
        return ""
    if kind is None:
        return "a value of unknown type"
    if kind == "sequence_type":
        return f"a sequence of {(kind_of(proto.sequence_type.elem_type) or 'a tensor').partition(' ')[2]}s"
    if kind == "optional_type":
        return f"an optional {(kind_of(proto.optional_type.elem_type) or 'a tensor').partition(' ')[2]}"
    return {"map_type": "a map", "sparse_tensor_type": "a sparse tensor"}.get(kind, "an opaque value")
