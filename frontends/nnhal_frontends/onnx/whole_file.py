"""A file as one operation of the extension nnhal.onnx, made without converting any of its nodes.

That is what a device gets in any case that takes a whole file in its own words. The passes and converters of the
importer, which take most of the time of a load, are left to who wants to see the operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import onnx
from onnx import numpy_helper

from nnhal.arrays import Array
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.builder import OPERAND_TYPES, OnnxGraphBuilder
from nnhal_frontends.onnx.external_data import attach_external_data
from nnhal_frontends.onnx.graph import MIN_OPSET, LightModel, OnnxGraph, OnnxNode, TensorInfo, read_light, tensor_info
from nnhal_frontends.onnx.screening import screen
from nnhal_frontends.weights_pool import Weights

_IR_VERSION = 10


def whole_file(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    limits: ImportLimits,
    others: Weights = MappingProxyType({}),
) -> ImportedModel | None:
    """Import a model as one operation, with the inputs and outputs that it has by ``import_onnx``, in the same
    dimensions; None if only the importer's passes can tell what these are, or if the file is not that simple.

    ``others`` are what other files have of its values: they stay there. Raises InvalidModel as ``import_onnx`` does,
    and what else its passes raise.
    """
    if not _is_plain(model):
        return None
    model, values = attach_external_data(model, others, limits) if others else (model, {})
    screen(model, limits)
    light = read_light(model, shapes, True, values)
    file, weights = light.inferred.graph, light.apart.weights | dict(_constants(light))
    if file.sparse_initializer or light.opset < MIN_OPSET:
        return None
    held = {*light.apart.added, *weights, *(tensor.name for tensor in file.initializer)}
    inputs = tuple(value.name for value in file.input if value.name not in held)
    outputs = tuple(value.name for value in file.output)
    infos = {value.name: tensor_info(value) for value in (*file.input, *file.output) if value.name not in held}
    made = {name for node in light.named.graph.node for name in node.output}
    if not made.issuperset(outputs) or len(set(outputs)) < len(outputs) or not all(map(_is_known, infos.values())):
        return None
    if any(info.element_type.kind in "iu" and info.element_type.itemsize == 1 for info in infos.values()) and (
        _is_quantised(model)
    ):
        return None
    names = tuple(dict.fromkeys(place.name for place in light.places.values()))
    # With this node the builder has tensors of unknown lengths as the HAL's, as they are beside operations of the HAL.
    reader = OnnxNode("file", "", inputs, outputs)
    graph = OnnxGraph(
        light.opset, (reader,), inputs, dict(zip(outputs, outputs, strict=True)), infos, weights, weights=others
    )
    builder = OnnxGraphBuilder.within(limits, graph, extension=True)
    given = [*map(builder.input, inputs), *map(builder.exact, weights)]
    message = _message(light, [*inputs, *weights])
    builder.extension_operation(message, given, [*map(builder.tensor, outputs)], names)
    shown = {
        name: ImportedTensor(name, builder.operands[name], i.element_type, i.shape or ()) for name, i in infos.items()
    }
    return ImportedModel(
        builder.model.build(given[: len(inputs)], [builder.operands[name] for name in outputs]),
        tuple(shown[name] for name in inputs),
        tuple(shown[name] for name in outputs),
        (names,),
        (),
        tuple(builder.model.names),
        light.warnings,
        node_count=len(model.graph.node),
    )


def _constants(light: LightModel) -> Iterator[tuple[str, Array]]:
    """The values of large nodes Constant, by the input that each reads in their place."""
    for node in light.named.graph.node if light.apart.nodes else ():
        constant = light.apart.original(node)
        if constant is not node:
            yield node.input[0], numpy_helper.to_array(constant.attribute[0].t)


def _is_plain(model: onnx.ModelProto) -> bool:
    """Whether inputs and outputs are declared as tensors, if at all, and there are no functions."""
    kinds = {value.type.WhichOneof("value") for value in (*model.graph.input, *model.graph.output)}
    return kinds <= {"tensor_type", None} and not model.functions


def _is_quantised(model: onnx.ModelProto) -> bool:
    """Whether operators may give bytes a scale, which passes over the graph find and users see."""
    kinds = {node.op_type for node in model.graph.node}
    return any(kind.startswith("Q") or "quant" in kind.lower() for kind in kinds)


def _is_known(info: TensorInfo) -> bool:
    """Whether a tensor is an operand as it is."""
    return info.element_type in OPERAND_TYPES and info.shape is not None and not info.is_empty


def _message(light: LightModel, inputs: Sequence[str]) -> onnx.ModelProto:
    """The nodes and small constants of a file; what it reads are its inputs and its large constants."""
    message = onnx.ModelProto(ir_version=_IR_VERSION, opset_import=light.named.opset_import)
    graph = message.graph
    graph.name = "file"
    graph.node.extend(light.named.graph.node)
    graph.initializer.extend(light.named.graph.initializer)
    declared = {value.name: value for value in light.inferred.graph.input}
    graph.input.extend(declared[name] for name in inputs)
    graph.output.extend(light.inferred.graph.output)
    return message
