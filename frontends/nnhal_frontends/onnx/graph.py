"""The ONNX graph that the importer's passes work on: immutable, with inferred shapes and constants as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, helper, inliner, numpy_helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import fresh, tensor_names
from nnhal.types import FusedActivation
from nnhal.types.layout import Dimensions, describe
from nnhal_frontends.errors import InvalidModel, UnfitShape, UnsupportedNode
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.onnx.inference import forget_unknown, infer, with_types
from nnhal_frontends.onnx.places import NodePlace, with_own_names
from nnhal_frontends.onnx.qoperators import expand_qoperators
from nnhal_frontends.onnx.screening import screen
from nnhal_frontends.onnx.weights_apart import ModelApart, set_weights_apart, take_weights_out
from nnhal_frontends.weights_pool import Weights

MIN_OPSET = 7
_DEFAULT_DOMAINS = ("", "ai.onnx")


class TensorInfo(NamedTuple):
    """The type and shape of a tensor."""

    element_type: np.dtype[np.generic]
    """``object`` for anything other than a tensor of numbers."""
    shape: Dimensions | None
    """0 for an unknown dimension; None if the rank is unknown."""
    symbols: tuple[str, ...] = ()
    """A name for each axis, empty if it has none. Unknown dimensions of the same name are equal."""
    proto: onnx.TypeProto | None = None
    """The type as declared by the model."""
    is_empty: bool = False
    """True if the model declares a dimension of 0."""


@dataclass(frozen=True, slots=True)
class OnnxQuantization:
    """Quantisation of integers: real = (q - zero_point) * scale, with one pair or one per index along ``axis``."""

    element_type: np.dtype[np.generic]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a tensor that has only one."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor that has only one."""
        (zero_point,) = self.zero_points
        return zero_point


@dataclass(frozen=True, slots=True)
class OnnxNode:
    name: str
    op_type: str
    inputs: tuple[str, ...]
    """An empty name is an input that is left out. The tensors that subgraphs read come last."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    activation: FusedActivation = FusedActivation.NONE
    stands_for: tuple[str, ...] = ()
    """The user's nodes that have been merged into this one, itself included."""
    source: onnx.NodeProto | None = None
    """The node of the model; None if a pass has made this one."""

    def input(self, index: int) -> str:
        """Return the name of an input; empty if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        """Return the error to raise about this node."""
        return UnsupportedNode(self.name, self.op_type, reason, supported)


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """A graph: nodes in an order in which they can be computed, and tensors by name."""

    opset: int
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    """The tensor that holds each output of the model."""
    tensors: Mapping[str, TensorInfo]
    constants: Mapping[str, Array]
    quantization: Mapping[str, OnnxQuantization] = field(default_factory=dict)
    """How integer tensors are quantised."""
    imports: Sequence[onnx.OperatorSetIdProto] = ()
    """The opsets of all domains."""
    warnings: tuple[str, ...] = ()
    """Declarations of the model that are wrong, in words."""
    taken: Collection[str] = ()
    """The names of the model's tensors, those of subgraphs too, which no pass may give to another."""
    places: Mapping[str, NodePlace] = field(default_factory=dict)
    """The nodes of the file by the names of those of the graph; empty if that is unknown."""
    weights: Weights = field(default_factory=dict)
    """The memory outside of the file that constants may lie in."""

    def fresh(self, name: str) -> str:
        """Return a name for a tensor of a pass."""
        return fresh(name, self.taken)

    def shape(self, name: str) -> Dimensions | None:
        """Return a tensor's shape; None if its rank is unknown."""
        if name in self.constants:
            return self.constants[name].shape
        return self.tensors[name].shape if name in self.tensors else None

    def sizes(self, name: str) -> tuple[int | str, ...] | None:
        """Return a tensor's shape with names for unknown dimensions; None if the rank or a name is unknown."""
        shape = self.shape(name)
        if shape is None or 0 not in shape:
            return shape
        symbols = self.tensors[name].symbols or ("",) * len(shape)
        sizes = tuple(length or symbol for length, symbol in zip(shape, symbols, strict=True))
        return None if "" in sizes else sizes

    def uses(self) -> Counter[str]:
        """Count how often each tensor is read, by nodes and as an output of the model."""
        return Counter([name for node in self.nodes for name in node.inputs] + list(self.outputs.values()))

    def producers(self) -> dict[str, OnnxNode]:
        """Return the node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def consumers(self) -> dict[str, list[OnnxNode]]:
        """Return the nodes that read each tensor."""
        found: dict[str, list[OnnxNode]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    def without_unused(self) -> OnnxGraph:
        """Return the graph without nodes that no output needs."""
        needed = set(self.outputs.values())
        kept = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                kept.append(node)
                needed.update(node.inputs)
        return replace(self, nodes=tuple(reversed(kept)))


def read_graph(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    lenient: bool = False,
    limits: ImportLimits = DEFAULT_LIMITS,
) -> OnnxGraph:
    """Check a model, and return it as a graph. ``shapes`` fixes the shapes of inputs; lengths of 0 stay open.

    With ``lenient`` any opset is taken, and shapes need not all be inferable. Raises InvalidModel if the model is not
    valid or exceeds the limits, or if the shapes do not fit it.
    """
    screen(model, limits)
    return read_screened(model, shapes, lenient)


def read_screened(
    given: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    lenient: bool = False,
    values: Mapping[str, Array] = MappingProxyType({}),
    weights: Weights = MappingProxyType({}),
) -> OnnxGraph:
    """Read a model that has been screened, as ``read_graph`` does.

    ``values`` has the values of initializers that lie in ``weights``.
    """
    own = {function.domain for function in given.functions}
    light = read_light(given, shapes or {}, lenient, values)
    graph, apart = light.inferred.graph, light.apart
    constants = {tensor.name: constant_array(tensor, tensor.name) for tensor in graph.initializer}
    constants |= {tensor.values.name: _dense(tensor) for tensor in graph.sparse_initializer} | apart.weights
    return OnnxGraph(
        light.opset,
        tuple(_node(apart.original(node), node.name) for node in graph.node),
        tuple(value.name for value in graph.input if value.name not in constants and value.name not in apart.added),
        {value.name: value.name for value in graph.output},
        {
            value.name: tensor_info(value)
            for value in (*graph.input, *graph.value_info, *graph.output)
            if value.name not in apart.added
            if value.type.WhichOneof("value") != "tensor_type" or value.type.tensor_type.elem_type
        },
        constants,
        imports=tuple(entry for entry in light.inferred.opset_import if entry.domain not in own),
        warnings=light.warnings,
        taken=light.taken,
        places=light.places,
        weights=weights,
    )


@dataclass(frozen=True, slots=True)
class LightModel:
    """A checked model whose large constants are inputs."""

    opset: int
    apart: ModelApart
    """Its large constants."""
    inferred: onnx.ModelProto
    """The model with the shapes of all tensors, in simpler operators, whose nodes have the names of their places."""
    named: onnx.ModelProto
    """The model before its shapes were inferred."""
    places: Mapping[str, NodePlace]
    warnings: tuple[str, ...]

    @property
    def taken(self) -> Collection[str]:
        """The names of the file's tensors, found out anew."""
        return tensor_names(self.named.graph) - self.apart.added


def read_light(
    given: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    lenient: bool,
    values: Mapping[str, Array] = MappingProxyType({}),
) -> LightModel:
    """Check a model that has been screened, and infer its shapes. Raises InvalidModel as ``read_graph`` does."""
    apart = set_weights_apart(given, values)
    model = apart.model
    _require_valid(model)
    try:
        inlined = inliner.inline_local_functions(model) if model.functions else model
    except RuntimeError as error:
        said = str(error).rpartition(": ")[2]
        raise InvalidModel(f"a function of the ONNX model is called otherwise than it is defined: {said}") from error
    named, places = with_own_names(inlined, model, apart.original, is_copy=inlined is not given)
    return _inferred(NamedModel(apart, named, places), shapes, lenient)


class NamedModel(NamedTuple):
    """A model without functions whose large constants are inputs. It need not be valid."""

    apart: ModelApart
    """Its large constants."""
    model: onnx.ModelProto
    """Each node has a name of its own."""
    places: Mapping[str, NodePlace]

    @classmethod
    def of(cls, given: onnx.ModelProto, values: Mapping[str, Array], constants: Mapping[str, Array]) -> NamedModel:
        """Name the nodes of a model, and take out its constants; the model changes.

        ``values`` and ``constants`` are of initializers and nodes whose values lie outside the model.
        """
        named, places = with_own_names(given, given, lambda node: node, is_copy=True)
        return cls(take_weights_out(named, values, constants), named, places)

    @property
    def opset(self) -> int:
        """The opset of ONNX's own operators; 0 if it names none."""
        imports = self.apart.model.opset_import
        return max((entry.version for entry in imports if entry.domain in _DEFAULT_DOMAINS), default=0)

    def light(self, shapes: Mapping[str, Sequence[int]]) -> LightModel:
        """Check it, and infer its shapes, as far as they can be. Raises InvalidModel."""
        _require_valid(self.model)
        return _inferred(self, shapes, lenient=True)


def _require_valid(model: onnx.ModelProto) -> None:
    try:
        onnx.checker.check_model(with_types(model))
    except onnx.checker.ValidationError as error:
        raise InvalidModel(f"not a valid ONNX model: {error}") from error


def _inferred(given: NamedModel, shapes: Mapping[str, Sequence[int]], lenient: bool) -> LightModel:
    opset, apart = given.opset, given.apart
    if not lenient and opset < MIN_OPSET:
        raise InvalidModel(f"the model uses ONNX opset {opset}, expected {MIN_OPSET} or later")
    expanded = expand_qoperators(given.model, apart)
    inferred, warnings = infer(with_shapes(expanded, shapes, apart.added), lenient)
    return LightModel(opset, apart, inferred, given.model, given.places, tuple(warnings))


def constant_array(tensor: onnx.TensorProto, name: str) -> Array:
    """Return the array of a tensor. Raises InvalidModel if its bytes do not fit its type and shape."""
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError) as error:
        raise InvalidModel(f"the values of tensor '{name}' do not fit its shape {list(tensor.dims)}") from error


def _dense(tensor: onnx.SparseTensorProto) -> Array:
    """Return a sparse tensor as an array. Its indices count elements, or give a position along each axis."""
    values, indices = numpy_helper.to_array(tensor.values), numpy_helper.to_array(tensor.indices)
    dense = np.zeros(tuple(tensor.dims), values.dtype)
    dense[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, dense.shape)] = values
    return dense


def with_shapes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], added: Collection[str]) -> onnx.ModelProto:
    """Return a copy with fixed shapes, and with a name for every dimension that stays unknown: a length of 0.

    The inputs in ``added`` are not the user's. Raises UnfitShape.
    """
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    forget_unknown(fixed.graph)
    inputs = {value.name: value.type.tensor_type for value in fixed.graph.input if value.name not in added}
    for name, shape in shapes.items():
        if name not in inputs:
            raise UnfitShape(f"a shape is given for '{name}', the model's inputs are {sorted(inputs)}")
        declared = _shape(inputs[name])
        fits = declared is None or (
            len(declared) == len(shape) and all(0 in (d, s) or d == s for d, s in zip(declared, shape, strict=True))
        )
        if not fits or min(shape, default=1) < 0:
            raise UnfitShape(f"shape {list(shape)} is given for input '{name}' of shape {describe(declared or ())}")
        if declared is None:
            inputs[name].shape.SetInParent()
            for _ in shape:
                inputs[name].shape.dim.add()
        for dim, length in zip(inputs[name].shape.dim, shape, strict=True):
            if length:
                dim.dim_value = length
    for name, kind in inputs.items():
        for axis, dim in enumerate(kind.shape.dim):
            if not dim.HasField("dim_value") and not dim.dim_param:
                dim.dim_param = f"{name}/{axis}"
    return fixed


def _node(proto: onnx.NodeProto, name: str) -> OnnxNode:
    attributes = {a.name: _text(helper.get_attribute_value(a)) for a in proto.attribute}
    domain = "" if proto.domain in _DEFAULT_DOMAINS else proto.domain
    return OnnxNode(
        name,
        proto.op_type,
        all_inputs(proto),
        tuple(proto.output),
        attributes,
        domain,
        stands_for=(name,),
        source=proto,
    )


def all_inputs(proto: onnx.NodeProto) -> tuple[str, ...]:
    """Return a node's inputs, followed by what its subgraphs read from the graph."""
    if not any(True for _ in _subgraphs(proto)):
        return tuple(proto.input)
    captured = names_read([onnx.NodeProto(attribute=proto.attribute)])
    return (*proto.input, *(name for name in captured if name not in proto.input))


def names_read(nodes: Iterable[onnx.NodeProto]) -> dict[str, None]:
    """Return the names that nodes and their subgraphs read and do not write, in order."""
    nodes = list(nodes)
    made = {name for node in nodes for name in node.output}
    found: dict[str, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(name for name in node.input if name))
        for graph in _subgraphs(node):
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {tensor.values.name for tensor in graph.sparse_initializer}
            read = {**names_read(graph.node), **dict.fromkeys(value.name for value in graph.output)}
            made_there = {name for inner in graph.node for name in inner.output}
            found.update(dict.fromkeys(name for name in read if name not in own | made_there))
    return dict.fromkeys(name for name in found if name not in made)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def tensor_info(value: onnx.ValueInfoProto) -> TensorInfo:
    """Return the type and shape that a model declares."""
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type":
        return TensorInfo(np.dtype(object), None, (), value.type)
    dims, shape = kind.shape.dim, _shape(kind)
    symbols = tuple([dim.dim_param for dim in dims])
    is_empty = shape is not None and 0 in shape and any(d.HasField("dim_value") and not d.dim_value for d in dims)
    element_type = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return TensorInfo(element_type, shape, symbols, value.type, is_empty)


def _shape(kind: onnx.TypeProto.Tensor) -> Dimensions | None:
    if not kind.HasField("shape"):
        return None
    return tuple([dim.dim_value for dim in kind.shape.dim])
