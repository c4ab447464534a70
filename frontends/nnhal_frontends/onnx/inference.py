"""Shapes of an ONNX model's tensors: what its nodes compute counts, and what the model declares fills the gaps."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx.shape_inference import InferenceError, infer_shapes

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.inference_bounds import InferenceBounds
from nnhal_frontends.onnx.screening import MAX_RANK

_MOST_ROUNDS = 8
"""Rounds of inference; each finds ranks that the one before it needed."""
_NO_NAMES = ("?", "-1", "None")
"""What exporters write for a dimension that has neither a length nor a name."""


def forget_unknown(graph: onnx.GraphProto) -> None:
    """Clear every declared dimension, in subgraphs too, that is below 0 or whose name is none."""
    for value in _declared(graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param in _NO_NAMES:
                dim.Clear()


def infer(model: onnx.ModelProto, lenient: bool) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model with inferred shapes, and a sentence for each declaration that they contradict.

    Such a declaration is dropped. With ``lenient`` shapes need not all be inferable. Raises InvalidModel.
    """
    InferenceBounds.of(model.graph).require_few()
    declared = {value.name: value for value in model.graph.output}
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = _inferred(bare)
    except InferenceError as error:
        if not lenient:
            raise InvalidModel(f"the shapes of the ONNX model contradict one another: {error}") from error
        inferred = _without_inner_shapes(bare)
    warnings = [_merge(declared[value.name], value) for value in inferred.graph.output]
    return inferred, [warning for warning in warnings if warning]


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer with ranks that onnx leaves unknown: the result of Reshape has as many axes as its target has elements.

    The first inference is without data, and finds vectors whose elements would be too many to be propagated.
    """
    model = infer_shapes(model, check_type=True, strict_mode=True)
    propagates = InferenceBounds.of(model.graph).may_propagate
    for _ in range(_MOST_ROUNDS):
        model = infer_shapes(model, check_type=True, strict_mode=True, data_prop=propagates)
        if not _add_ranks(model.graph):
            break
    return model


def _without_inner_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer without what the model declares of inner tensors, unless that does not help either."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    try:
        return _inferred(bare)
    except InferenceError:
        return infer_shapes(model)


def _add_ranks(graph: onnx.GraphProto) -> bool:
    """Return whether the rank of a tensor was found."""
    infos = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info, *graph.output)}
    lengths = {tensor.name: tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 1}
    lengths |= {
        name: info.shape.dim[0].dim_value
        for name, info in infos.items()
        if len(info.shape.dim) == 1 and info.shape.dim[0].HasField("dim_value")
    }
    found = False
    for node in graph.node:
        target = node.input[1] if node.op_type == "Reshape" and len(node.input) > 1 else ""
        result = infos.get(node.output[0]) if lengths.get(target, MAX_RANK + 1) <= MAX_RANK else None
        if result is not None and not result.HasField("shape"):
            result.shape.Clear()
            for _ in range(lengths[target]):
                result.shape.dim.add()
            found = True
    return found


def _merge(declared: onnx.ValueInfoProto, inferred: onnx.ValueInfoProto) -> str:
    """Fill what was not inferred of an output with what is declared; return what is said about a contradiction."""
    ours, theirs = inferred.type.tensor_type, declared.type.tensor_type
    if declared.type.WhichOneof("value") != "tensor_type" or not theirs.HasField("shape"):
        return ""
    if not ours.HasField("shape"):
        ours.shape.CopyFrom(theirs.shape)
        return ""
    before = _words(ours)
    pairs = list(zip(ours.shape.dim, theirs.shape.dim, strict=False))
    contradicts = len(ours.shape.dim) != len(theirs.shape.dim) or any(
        own.HasField("dim_value") and other.HasField("dim_value") and own.dim_value != other.dim_value
        for own, other in pairs
    )
    if contradicts:
        return (
            f"output '{declared.name}' is declared as {_words(theirs)}, but the model computes {before}, which counts"
        )
    for own, other in pairs:
        if not own.HasField("dim_value") and (other.HasField("dim_value") or not own.dim_param):
            own.CopyFrom(other)
    return ""


def _words(kind: onnx.TypeProto.Tensor) -> str:
    sizes = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    return f"[{', '.join(sizes)}]"


def _declared(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    """All values with a declared type, those of subgraphs too."""
    yield from (*graph.input, *graph.value_info, *graph.output)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _declared(inner)
