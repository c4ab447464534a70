"""A file as one operation of the extension nnhal.onnx, made without converting any of its nodes.

That is what a device gets in any case that takes a whole file in its own words. The passes and converters of the
importer, which take most of the time of a load, are left to who wants to see the operations. A device can prepare the
file while it is checked: what it declares of its outputs is mostly what is found then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import onnx

from nnhal.arrays import Array
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.builder import OPERAND_TYPES, OnnxGraphBuilder
from nnhal_frontends.onnx.external_data import TensorPlace, set_external_data_apart
from nnhal_frontends.onnx.graph import MIN_OPSET, NamedModel, OnnxGraph, OnnxNode, TensorInfo, tensor_info, with_shapes
from nnhal_frontends.onnx.screening import screen
from nnhal_frontends.weights_pool import Weights

_IR_VERSION = 10


Border = Mapping[str, TensorInfo]
"""The inputs and outputs by name."""


class DeclaredFile:
    """A file that is to become one operation. It has not been checked."""

    def __init__(
        self,
        named: NamedModel,
        shapes: Mapping[str, Sequence[int]],
        limits: ImportLimits,
        elsewhere: Mapping[str, TensorPlace],
    ) -> None:
        """``elsewhere`` has where large initializers lie in other files. Nobody looks at these.

        Raises InvalidModel if the shapes do not fit the inputs, or what is declared exceeds the limits."""
        graph = named.model.graph
        self._named, self._shapes, self._limits, self._elsewhere = named, shapes, limits, elsewhere
        self._weights = named.apart.weights
        self._held = {*named.apart.added, *self._weights, *(tensor.name for tensor in graph.initializer)}
        declared = onnx.ModelProto(graph=onnx.GraphProto(input=graph.input, output=graph.output))
        typed = with_shapes(declared, shapes, named.apart.added).graph
        self._declared = self._border(typed)
        self.as_declared = None if self._declared is None else self._imported(typed, self._declared)
        """The file with the outputs that it declares, which need not be true; None if it does not declare enough."""

    def checked(self) -> ImportedModel | None:
        """The file with the inputs and outputs that it has by ``import_onnx``, in the same dimensions; None if only the
        importer's passes can tell what these are.

        If they are those that it declares, the model is that of ``as_declared``. Raises InvalidModel as ``import_onnx``
        does, and what else its passes raise.
        """
        screen(self._named.model, self._limits)
        light = self._named.light(self._shapes)
        border = self._border(light.inferred.graph)
        if border is None:
            return None
        imported = self.as_declared if _is_same(border, self._declared) else None
        return replace(imported or self._imported(light.inferred.graph, border), warnings=light.warnings)

    def _border(self, typed: onnx.GraphProto) -> Border | None:
        """The inputs and outputs as a graph has them; None if they are no operands as they are."""
        border = {v.name: tensor_info(v) for v in (*typed.input, *typed.output) if v.name not in self._held}
        bytes_ = (info.element_type.kind in "iu" and info.element_type.itemsize == 1 for info in border.values())
        if not all(map(_is_known, border.values())) or (any(bytes_) and _is_quantised(self._named.model.graph)):
            return None
        return border

    def _imported(self, typed: onnx.GraphProto, border: Border) -> ImportedModel:
        named, weights, elsewhere = self._named, self._weights, self._elsewhere
        inputs = tuple(value.name for value in typed.input if value.name not in self._held)
        outputs = tuple(value.name for value in typed.output)
        names = tuple(dict.fromkeys(place.name for place in named.places.values()))
        # With this node the builder has tensors of unknown lengths as the HAL's, as beside operations of the HAL.
        reader = OnnxNode("file", "", inputs, outputs)
        made = dict(zip(outputs, outputs, strict=True))
        graph = OnnxGraph(named.opset, (reader,), inputs, made, border, weights)
        builder = OnnxGraphBuilder.within(self._limits, graph, extension=True)
        given = [
            *map(builder.input, inputs),
            *(builder.elsewhere(elsewhere[name]) if name in elsewhere else builder.exact(name) for name in weights),
        ]
        message = _message(named.model, typed, [*inputs, *weights])
        builder.extension_operation(message, given, [*map(builder.tensor, outputs)], names)
        shown = {
            name: ImportedTensor(name, builder.operands[name], info.element_type, info.shape or ())
            for name, info in border.items()
        }
        return ImportedModel(
            builder.model.build(given[: len(inputs)], [builder.operands[name] for name in outputs]),
            tuple(shown[name] for name in inputs),
            tuple(shown[name] for name in outputs),
            (names,),
            (),
            tuple(builder.model.names),
            node_count=len(named.places),
        )


def declared_file(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    limits: ImportLimits,
    others: Weights = MappingProxyType({}),
    values: Mapping[str, Array] = MappingProxyType({}),
    constants: Mapping[str, Array] = MappingProxyType({}),
) -> DeclaredFile | None:
    """Read a model that is to become one operation, and changes; None if it is not that simple.

    ``others`` are what other files have of its values: they stay there. ``values`` and ``constants`` are those of
    initializers and nodes of which the model has none. Raises InvalidModel as ``import_onnx`` does.
    """
    if not _is_plain(model.graph) or model.functions or len(model.graph.node) > limits.nodes:
        return None
    elsewhere: dict[str, TensorPlace] = {}
    if others:
        model, elsewhere = set_external_data_apart(model, others, limits)
        values = {name: place.blank() for name, place in elsewhere.items()}
    named = NamedModel.of(model, values, constants)
    graph = named.model.graph
    outputs = [value.name for value in graph.output]
    if named.opset < MIN_OPSET or len(set(outputs)) < len(outputs) or not _are_made(graph, outputs):
        return None
    return DeclaredFile(named, shapes, limits, elsewhere)


def _are_made(graph: onnx.GraphProto, names: Sequence[str]) -> bool:
    """Return whether nodes make these tensors; the last ones mostly do."""
    left = set(names)
    for node in reversed(graph.node):
        left.difference_update(node.output)
        if not left:
            return True
    return not left


def _is_quantised(graph: onnx.GraphProto) -> bool:
    return any(node.op_type[:1] == "Q" or "quant" in node.op_type.lower() for node in graph.node)


def _is_plain(graph: onnx.GraphProto) -> bool:
    """Return whether inputs and outputs are declared as tensors, if at all, and no constant is sparse."""
    kinds = {value.type.WhichOneof("value") for value in (*graph.input, *graph.output)}
    return kinds <= {"tensor_type", None} and not graph.sparse_initializer


def _is_known(info: TensorInfo) -> bool:
    """Return whether a tensor is an operand as it is."""
    return info.element_type in OPERAND_TYPES and info.shape is not None and not info.is_empty


def _is_same(one: Border, other: Border | None) -> bool:
    """Return whether inputs and outputs are the same operands."""
    return other is not None and all(info[:2] == other[name][:2] for name, info in one.items())


def _message(model: onnx.ModelProto, typed: onnx.GraphProto, inputs: Sequence[str]) -> onnx.ModelProto:
    """The nodes and small constants of a model; what it reads are its inputs and its large constants.

    ``typed`` has its inputs and outputs.
    """
    message = onnx.ModelProto(ir_version=_IR_VERSION, opset_import=model.opset_import)
    graph = message.graph
    graph.name = "file"
    graph.node.extend(model.graph.node)
    graph.initializer.extend(model.graph.initializer)
    declared = {value.name: value for value in typed.input}
    graph.input.extend(declared[name] for name in inputs)
    graph.output.extend(typed.output)
    return message
