"""Some nodes of an ONNX file as a model of their own, with the values at their border as inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import onnx

from nnhal.arrays import Array
from nnhal_frontends.errors import FrontendError, InvalidModel
from nnhal_frontends.imported import FileNode, ImportedTensor
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.external_data import attach_external_data
from nnhal_frontends.onnx.graph import all_inputs, read_screened
from nnhal_frontends.onnx.screening import screen
from nnhal_frontends.weights_pool import Weights


class OnnxParts:
    """The nodes of a file, and models of some of them."""

    is_interpreted, is_shared = False, False
    apart: Mapping[int, str] = MappingProxyType({})

    def __init__(
        self,
        model: onnx.ModelProto,
        limits: ImportLimits,
        shapes: Mapping[str, Sequence[int]] | None = None,
        weights: Weights = MappingProxyType({}),
    ) -> None:
        """``shapes`` and ``weights`` are as for ``import_onnx``."""
        self.model = model
        self._limits, self._shapes, self._weights = limits, shapes, weights
        self.nodes: Sequence[FileNode] = [
            FileNode(n.name, n.op_type, all_inputs(n), tuple(n.output)) for n in model.graph.node
        ]
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._sparse = {tensor.values.name: tensor for tensor in model.graph.sparse_initializer}
        self.constants: Collection[str] = self._initializers.keys() | self._sparse.keys()
        """The values that the file gives."""
        self.outputs = {value.name for value in model.graph.output}
        self._types = {} if shapes else _known_types(model.graph)
        self._is_inferred = False

    @property
    def operators(self) -> Collection[str]:
        return {schema.name for schema in onnx.defs.get_all_schemas()}

    def members(self, numbers: Sequence[int], left: Collection[int]) -> tuple[int, ...]:
        """Return the nodes themselves: those that compute constants are with the others that read them."""
        del left
        return tuple(numbers)

    def value(self, tensor: ImportedTensor) -> str:
        """Return what an input or output of an imported part is called here."""
        return tensor.name

    def refused(self, error: FrontendError) -> Mapping[int, str]:
        """Return no nodes: names may be repeated."""
        del error
        return {}

    def part(self, numbers: Sequence[int]) -> onnx.ModelProto:
        """Return the model of some nodes, ascending. It writes what other nodes read, or the user of the file.

        Raises InvalidModel if nothing is read or written, or if the type of a value at the border is not known.
        """
        inside = set(numbers)
        chosen = [self.nodes[number] for number in numbers]
        written = dict.fromkeys(name for node in chosen for name in node.writes if name)
        read = dict.fromkeys(name for node in chosen for name in node.reads if name and name not in written)
        wanted = self.outputs | {
            name for number, node in enumerate(self.nodes) if number not in inside for name in node.reads
        }
        inputs = [name for name in read if name not in self.constants]
        outputs = [name for name in written if name in wanted]
        if not inputs or not outputs:
            raise InvalidModel(f"the part has no {'outputs' if inputs else 'inputs'}")
        source = self.model
        part = onnx.ModelProto(ir_version=source.ir_version, opset_import=source.opset_import)
        part.functions.extend(source.functions)
        part.graph.name = source.graph.name or "part"
        part.graph.node.extend(source.graph.node[number] for number in numbers)
        part.graph.initializer.extend(self._initializers[name] for name in read if name in self._initializers)
        part.graph.sparse_initializer.extend(self._sparse[name] for name in read if name in self._sparse)
        part.graph.input.extend(self._declared(name) for name in inputs)
        part.graph.output.extend(self._declared(name) for name in outputs)
        return part

    def _declared(self, name: str) -> onnx.ValueInfoProto:
        if name not in self._types and not self._is_inferred:
            self._types, self._is_inferred = {**self._inferred(), **self._types}, True
        if name not in self._types:
            raise InvalidModel(f"the type of '{name}' is not known, which lies at the border of a part")
        return onnx.ValueInfoProto(name=name, type=self._types[name])

    def _inferred(self) -> dict[str, onnx.TypeProto]:
        model, weights, given = self.model, self._weights, dict[str, Array]()
        if weights:
            model, given = attach_external_data(model, weights, self._limits)
        screen(model, self._limits)
        found = read_screened(model, self._shapes, True, given, weights).tensors
        return {name: info.proto for name, info in found.items() if info.proto is not None}


def _known_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Return the types of values that the file declares with a shape, or that are no tensors."""
    return {
        value.name: value.type
        for value in (*graph.value_info, *graph.input, *graph.output)
        if value.type.WhichOneof("value") != "tensor_type" or value.type.tensor_type.HasField("shape")
        if value.type.WhichOneof("value") is not None
    }
