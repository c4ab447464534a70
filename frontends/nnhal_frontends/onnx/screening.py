"""Refuse ONNX models that would cost more to read than they are worth, before ONNX's own tools read them.

Those inline functions, propagate shapes, and open the files that tensors name, whatever that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import ImportLimits

MAX_RANK = 64
"""Numpy's."""
_LONGEST_NAME = 1 << 16
_SHOWN = 60
"""Characters of a name that is too long."""
_ELEMENT_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


def screen(model: onnx.ModelProto, limits: ImportLimits) -> None:
    """Check sizes, names, types and files of a model. Raises InvalidModel."""
    _Screening(model, limits).run()


class _Screening:
    def __init__(self, model: onnx.ModelProto, limits: ImportLimits) -> None:
        self._model = model
        self._limits = limits
        self._sparse_bytes = 0
        self._seen_nodes = 0

    def run(self) -> None:
        functions = {(function.domain, function.name): list(function.node) for function in self._model.functions}
        if not self._model.graph.output:
            raise InvalidModel("the model has no outputs, expected at least one")
        self._graph(self._model.graph)
        if not functions:
            self._require_few(self._seen_nodes)
            return
        for (_, name), nodes in functions.items():
            self._name(name, "function")
            self._nodes(nodes)
        sizes = self._function_sizes({key: list(_all_nodes(nodes)) for key, nodes in functions.items()})
        every = _all_nodes(self._model.graph.node)
        self._require_few(sum(sizes.get((node.domain, node.op_type), 1) for node in every))

    def _function_sizes(self, functions: dict[tuple[str, str], list[NodeProto]]) -> dict[tuple[str, str], int]:
        """Return the number of nodes that each function stands for, those of the functions that it calls included."""
        callers: dict[tuple[str, str], list[tuple[str, str]]] = {key: [] for key in functions}
        missing: dict[tuple[str, str], int] = {}
        for key, nodes in functions.items():
            called = {(node.domain, node.op_type) for node in nodes} & functions.keys()
            missing[key] = len(called)
            for other in called:
                callers[other].append(key)
        sizes: dict[tuple[str, str], int] = {}
        ready = [key for key, count in missing.items() if not count]
        while ready:
            key = ready.pop()
            sizes[key] = 1 + sum(sizes.get((node.domain, node.op_type), 1) for node in functions[key])
            for caller in callers[key]:
                missing[caller] -= 1
                if not missing[caller]:
                    ready.append(caller)
        if len(sizes) < len(functions):
            names = sorted(name for _, name in functions.keys() - sizes.keys())
            raise InvalidModel(f"functions call one another in a cycle: {', '.join(names[:5])}")
        return sizes

    def _require_few(self, nodes: int) -> None:
        if nodes > self._limits.nodes:
            got = f"{nodes} nodes" if nodes < 1 << 62 else "more nodes than can be counted"
            raise InvalidModel(
                f"the model has {got}, subgraphs and the contents of functions included, expected at most "
                f"{self._limits.nodes}"
            )

    def _graph(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            self._tensor(tensor)
        for sparse in graph.sparse_initializer:
            self._sparse(sparse)
        for value in (*graph.input, *graph.output, *graph.value_info):
            self._value(value)
        self._nodes(graph.node)

    def _nodes(self, nodes: Iterable[NodeProto]) -> None:
        for node in nodes:
            self._seen_nodes += 1
            if node.ByteSize() > _LONGEST_NAME:
                for name in (node.name, node.op_type, node.domain, *node.input, *node.output):
                    self._name(name, "node or tensor")
            for attribute in node.attribute:
                if attribute.type not in _PLAIN:
                    self._attribute(attribute)

    def _attribute(self, attribute: AttributeProto) -> None:
        for tensor in (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors:
            self._tensor(tensor)
        if attribute.HasField("sparse_tensor"):
            self._sparse(attribute.sparse_tensor)
        for sparse in attribute.sparse_tensors:
            self._sparse(sparse)
        for graph in _graphs(attribute):
            self._graph(graph)

    def _tensor(self, tensor: TensorProto) -> None:
        self._name(tensor.name, "tensor")
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
            raise InvalidModel(
                f"the values of tensor '{tensor.name}' lie in another file, '{location}', which did not come with the "
                "model: expected it in the folder of the model's file, or below that"
            )
        self._element_type(tensor.data_type, tensor.name)
        self._rank(len(tensor.dims), tensor.name)

    def _sparse(self, sparse: onnx.SparseTensorProto) -> None:
        name = sparse.values.name
        self._tensor(sparse.values)
        self._tensor(sparse.indices)
        self._rank(len(sparse.dims), name)
        width = helper.tensor_dtype_to_np_dtype(sparse.values.data_type).itemsize
        self._sparse_bytes += width * prod(max(0, length) for length in sparse.dims)
        if self._sparse_bytes > self._limits.folded_bytes:
            raise InvalidModel(
                f"the sparse tensors up to '{name}' take {self._sparse_bytes} bytes as dense ones, expected at most "
                f"{self._limits.folded_bytes}"
            )

    def _value(self, value: onnx.ValueInfoProto) -> None:
        self._name(value.name, "tensor")
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") == "tensor_type":
            if kind.elem_type:
                self._element_type(kind.elem_type, value.name)
            self._rank(len(kind.shape.dim), value.name)

    def _element_type(self, code: int, name: str) -> None:
        if code not in _ELEMENT_TYPES:
            raise InvalidModel(f"tensor '{name}' has element type {code}, which ONNX does not have")

    def _rank(self, rank: int, name: str) -> None:
        if rank > MAX_RANK:
            raise InvalidModel(f"tensor '{name}' has {rank} dimensions, expected at most {MAX_RANK}")

    def _name(self, name: str, what: str) -> None:
        if len(name) > _LONGEST_NAME:
            raise InvalidModel(
                f"the name of a {what}, '{name[:_SHOWN]}…', has {len(name)} characters, expected at most "
                f"{_LONGEST_NAME}"
            )


_PLAIN = frozenset(
    {AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.FLOATS, AttributeProto.INTS}
)
"""Attributes without tensors and graphs: those that most nodes have."""


def _graphs(attribute: AttributeProto) -> tuple[GraphProto, ...]:
    return (attribute.g, *attribute.graphs) if attribute.HasField("g") else tuple(attribute.graphs)


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type not in _PLAIN:
                for graph in _graphs(attribute):
                    yield from _all_nodes(graph.node)
