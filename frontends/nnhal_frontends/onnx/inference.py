"""Shapes of an ONNX model's tensors: what its nodes compute counts, and what the model declares fills the gaps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import onnx
from onnx.shape_inference import InferenceError, infer_shapes

from nnhal.extensions.onnx_shapes import UninferableNode, inferred_as_computed
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.inference_bounds import InferenceBounds
from nnhal_frontends.onnx.screening import MAX_RANK

_MOST_ROUNDS = 8
"""Rounds of inference; each finds ranks that the one before it needed."""
_ML = "ai.onnx.ml"
_PREDICTORS = {
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), (1, 2)),
    **dict.fromkeys(("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor"), (2,)),
}
"""The ranks of what predictors make, for inputs of rank 2."""
_STRING_LABELS = {"classlabels_strings", "classlabels_ints_strings"}
_WRONG_TYPES = re.compile(
    r"\(op_type:(\w+)(?:, node name: ([^\n]*?))?\): [^\n]*?"
    r"(?:elem type differs from existing elem type: \((\d+)\) vs \((\d+)\)"
    r"|has (?:inconsistent type|unsupported type:) tensor\(\w+\)"
    r"|\[TypeInferenceError\](?! Inferred elem type|[^\n]*(?:ShapeInferenceError|instead is null))[^\n]*)"
)
"""What onnx says of a node whose inputs, or results as they are declared, have other types than its operator has."""
_NO_NAMES = ("?", "-1", "None")
"""What exporters write for a dimension that has neither a length nor a name."""


def forget_unknown(graph: onnx.GraphProto) -> None:
    """Clear every declared dimension, in subgraphs too, that is below 0 or whose name is none."""
    for value in _declared(graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param in _NO_NAMES:
                dim.Clear()


def with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which all inputs have a shape and all outputs a type too, which ONNX's checker wants of them.

    Runtimes find out both, so the model itself, which is returned if it has them all, is not to be blamed. What is
    added need not be true.
    """
    if all(_has_type(value) for value in (*model.graph.input, *model.graph.output)):
        return model
    completed = onnx.ModelProto()
    completed.CopyFrom(model)
    for value in completed.graph.input:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.shape.SetInParent()
    for value in completed.graph.output:
        if not _has_type(value):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
            value.type.tensor_type.shape.SetInParent()
    return completed


def _has_type(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.HasField("shape"))


def infer(model: onnx.ModelProto, lenient: bool) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model with inferred shapes, and a sentence for each declaration that they contradict.

    Such a declaration is dropped. With ``lenient`` shapes need not all be inferable. Raises InvalidModel; also, as ONNX
    Runtime does, if a tensor has another element type than its node computes or takes.
    """
    InferenceBounds.of(model.graph).require_few()
    declared = {value.name: value for value in model.graph.output}
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    _drop_empty_axes(bare.graph)
    try:
        inferred = _inferred_leniently(bare) if lenient else inferred_as_computed(bare, _inferred)
    except UninferableNode as error:
        raise InvalidModel(str(error)) from error
    except InferenceError as error:
        _require_types(error)
        raise InvalidModel(f"the shapes of the ONNX model contradict one another: {error}") from error
    except (IndexError, RuntimeError, ValueError) as error:  # of onnx, of values that it does not check
        raise InvalidModel(f"the shapes of the ONNX model cannot be inferred: {error}") from error
    warnings = [_merge(declared[value.name], value, inferred.graph.input) for value in inferred.graph.output]
    return inferred, [warning for warning in warnings if warning]


def _drop_empty_axes(graph: onnx.GraphProto) -> None:
    """Drop empty axes of Squeeze: to ONNX Runtime they are none, and to onnx's inference no axis at all."""
    empty = {tensor.name for tensor in graph.initializer if list(tensor.dims) == [0]}
    for node in graph.node:
        if node.op_type == "Squeeze" and not node.domain and len(node.input) > 1 and node.input[1] in empty:
            del node.input[1:]


def _require_types(error: InferenceError) -> None:
    """Raise InvalidModel if it is about the types of a node, and not only about shapes."""
    found = _WRONG_TYPES.search(str(error))
    if found is None:
        return
    operator, node, computed, declared = found.groups()
    says = found[0].rpartition("): ")[2]
    if computed is not None:
        names = [onnx.TensorProto.DataType.Name(int(code)) for code in (computed, declared)]
        says = f"computes {names[0]}, declared as {names[1]}"
    says = says.removeprefix("[TypeInferenceError] ")
    where = f"node '{node or ''}' ({operator})"
    raise InvalidModel(f"the types of the ONNX model contradict one another: {where}: {says}") from error


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer with ranks that onnx leaves unknown: the result of Reshape has as many axes as its target has elements.

    The first inference is without data, and finds vectors whose elements would be too many to be propagated.
    """
    model = infer_shapes(model, check_type=True, strict_mode=True)
    propagates = InferenceBounds.of(model.graph).may_propagate
    for _ in range(_MOST_ROUNDS):
        if not propagates and not _add_known(model.graph):  # nothing to infer that was not inferred before
            break
        model = infer_shapes(model, check_type=True, strict_mode=True, data_prop=propagates)
        if propagates and not _add_known(model.graph):
            break
    return model


def _add_known(graph: onnx.GraphProto) -> bool:
    """Return whether the rank or shape of a tensor was found that onnx does not infer."""
    return _add_ranks(graph) | _add_batches(graph)


def _inferred_leniently(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer without what the model declares of inner tensors if that is wrong, unless that does not help either."""
    try:
        return inferred_as_computed(model, _inferred)
    except InferenceError as error:
        _require_types(error)
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    try:
        return inferred_as_computed(bare, _inferred)
    except InferenceError:
        return infer_shapes(model)


def _add_ranks(graph: onnx.GraphProto) -> bool:
    """Return whether the rank of a tensor was found."""
    reshaping = [node for node in graph.node if node.op_type == "Reshape" and len(node.input) > 1]
    if not reshaping:
        return False
    infos = _infos(graph, {node.output[0] for node in reshaping})
    unknown = [node for node in reshaping if node.output[0] in infos and not infos[node.output[0]].HasField("shape")]
    if not unknown:
        return False
    targets = {node.input[1] for node in unknown}
    lengths = {t.name: t.dims[0] for t in graph.initializer if t.name in targets and len(t.dims) == 1}
    lengths |= {
        name: info.shape.dim[0].dim_value
        for name, info in _infos(graph, targets).items()
        if len(info.shape.dim) == 1 and info.shape.dim[0].HasField("dim_value")
    }
    found = False
    for node in unknown:
        target, result = node.input[1], infos[node.output[0]]
        if lengths.get(target, MAX_RANK + 1) <= MAX_RANK and not result.HasField("shape"):
            result.shape.Clear()
            for _ in range(lengths[target]):
                result.shape.dim.add()
            found = True
    return found


def _infos(graph: onnx.GraphProto, names: Collection[str]) -> dict[str, onnx.TypeProto.Tensor]:
    """Return what is declared or inferred of some tensors."""
    values = (*graph.input, *graph.value_info, *graph.output)
    return {name: value.type.tensor_type for value in values if (name := value.name) in names}


def _add_batches(graph: onnx.GraphProto) -> bool:
    """Return whether shapes of predictions were found, of which onnx infers none in most versions of ai.onnx.ml.

    They have as many rows as what is predicted from.
    """
    predicting = [node for node in graph.node if node.op_type in _PREDICTORS and node.domain == _ML]
    if not predicting:
        return False
    infos = _infos(graph, {name for node in predicting for name in (*node.input, *node.output)})
    found = False
    for node in predicting:
        ranks = _PREDICTORS[node.op_type]
        given = infos.get(node.input[0]) if node.input else None
        if given is None or len(given.shape.dim) != 2:
            continue
        for name, rank in zip(node.output, ranks, strict=False):
            if name not in infos:
                value = graph.value_info.add(name=name)
                value.type.tensor_type.elem_type = _predicted(node, rank)
                infos[name] = value.type.tensor_type
            if not infos[name].HasField("shape"):
                infos[name].shape.dim.add().CopyFrom(given.shape.dim[0])
                for _ in range(rank - 1):
                    infos[name].shape.dim.add()
                found = True
    return found


def _predicted(node: onnx.NodeProto, rank: int) -> int:
    """The element type of a prediction: scores, or labels, which have one axis."""
    labels = {attribute.name for attribute in node.attribute if attribute.strings}
    if rank > 1:
        return onnx.TensorProto.FLOAT
    return onnx.TensorProto.STRING if labels & _STRING_LABELS else onnx.TensorProto.INT64


def _merge(declared: onnx.ValueInfoProto, inferred: onnx.ValueInfoProto, inputs: Sequence[onnx.ValueInfoProto]) -> str:
    """Fill what was not inferred of an output with what is declared; return what is said about a contradiction.

    A length contradicts one that is an input's, which is open. A model with an input of any number of rows that
    declares one row of an output was exported from an example of one.
    """
    ours, theirs = inferred.type.tensor_type, declared.type.tensor_type
    if declared.type.WhichOneof("value") != "tensor_type" or not theirs.HasField("shape"):
        return ""
    dims = [value.type.tensor_type.shape.dim for value in inputs]
    symbols = {dim.dim_param for each in dims for dim in each if dim.dim_param}
    has_open_batch = any(each and not each[0].HasField("dim_value") for each in dims)
    lengths = [dim.dim_value for dim in theirs.shape.dim]
    from_one = has_open_batch and lengths[:1] == [1] and all(lengths)
    before = _words(ours) if ours.HasField("shape") else ""
    if not before:
        ours.shape.CopyFrom(theirs.shape)
        for dim in ours.shape.dim:
            dim.Clear()
    if len(ours.shape.dim) != len(lengths):
        return _contradiction(declared, before)
    contradicts = False
    for axis, (own, other) in enumerate(zip(ours.shape.dim, theirs.shape.dim, strict=True)):
        if own.HasField("dim_value"):
            contradicts |= other.HasField("dim_value") and own.dim_value != other.dim_value
        elif other.HasField("dim_value") and (own.dim_param in symbols or (from_one and axis == 0)):
            contradicts = True
        elif other.HasField("dim_value") or not own.dim_param:
            own.CopyFrom(other)
    return _contradiction(declared, before or _words(ours)) if contradicts else ""


def _contradiction(declared: onnx.ValueInfoProto, computed: str) -> str:
    said = _words(declared.type.tensor_type)
    return f"output '{declared.name}' is declared as {said}, but the model computes {computed}, which counts"


def _words(kind: onnx.TypeProto.Tensor) -> str:
    sizes = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    return f"[{', '.join(sizes)}]"


def _declared(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    """All values with a declared type, those of subgraphs too."""
    yield from (*graph.input, *graph.value_info, *graph.output)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                for inner in (attribute.g, *attribute.graphs):
                    yield from _declared(inner)
