"""A model file as a flow graph, and how the user's arrays become values of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, read_given_file
from nnhal.support import Unsupported
from nnhal.types.layout import describe
from nnhal_frontends import ModelFormat
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, SourceNode

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class FlowPort:
    """An input or output of the user's model."""

    name: str
    """The user's."""
    value: str
    """The name of the value of the graph; an output's is a key of ``FlowGraph.outputs``."""
    shape: tuple[int, ...]
    element_type: np.dtype[np.generic]
    """The user's."""
    scale: float = 0.0
    """The scale of quantised elements; 0 for others."""
    zero_point: int = 0

    def real(self, array: Array) -> Array:
        """Return the real numbers of an array of the user's. Floats are real numbers already.

        Raises:
            ValueError: the array has another shape, or another type.
        """
        if array.shape != self.shape:
            raise ValueError(f"input '{self.name}': got shape {describe(array.shape)}, expected {describe(self.shape)}")
        if array.dtype.kind == "f":
            return array.astype(np.float32)
        if array.dtype != self.element_type:
            raise ValueError(f"input '{self.name}': got {array.dtype}, expected {self.element_type} or float32")
        if self.scale:
            return (array.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)
        return array

    def own(self, array: Array) -> Array:
        """Return real numbers as the user's model has them."""
        if self.scale:
            limits = np.iinfo(self.element_type)  # type: ignore[type-var]
            codes = array.astype(np.float64) / self.scale
            codes = np.trunc(codes + np.copysign(0.5, codes)) + self.zero_point
            return np.clip(codes, limits.min, limits.max).astype(self.element_type)
        with np.errstate(over="ignore"):
            return array.astype(self.element_type, copy=False)


@dataclass(frozen=True, slots=True)
class FlowModel:
    """A user's model."""

    name: str
    """The name of its file."""
    graph: FlowGraph
    inputs: tuple[FlowPort, ...]
    outputs: tuple[FlowPort, ...]
    refusals: Mapping[str, Unsupported] = field(default_factory=dict)
    """Why operations have no operator in the flow, by the outputs of the nodes that stand for them."""


def read_flow_model(path: Path, shapes: Mapping[str, Sequence[int]] | None = None, public: bool = False) -> FlowModel:
    """Read an ONNX or TFLite model; the content tells which it is. ``shapes`` fixes those of an ONNX model's inputs.

    Of an ONNX model the public flow sees every node as it is. Otherwise it is what the framework makes of it, and what
    a device sees.

    Raises:
        OSError: the file cannot be read.
        FrontendError: it is no model.
        FlowError: the shape of an input is not known.
        ValueError: shapes are given for a TFLite model.
    """
    content = read_given_file(path, MOST_MODEL_BYTES, "a model")
    if is_tflite(content):
        if shapes:
            raise ValueError(f"{path}: got --shape for a TFLite model, expected it for ONNX models alone")
        return _tflite(path.name, content, public)
    return onnx_flow_model(path.name, parsed_onnx(path, content), shapes or {}, public)


def parsed_onnx(path: Path, content: bytes) -> onnx.ModelProto:
    """Return the message of a file, with the data in it that other files have.

    Raises InvalidModel, and OSError if such a file cannot be read.
    """
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    model = _parsed(path.name, content)
    if b"location" in content and any(uses_external_data(tensor) for tensor in model.graph.initializer):
        load_external_data_for_model(model, str(path.parent))
    return model


def _parsed(name: str, content: bytes) -> onnx.ModelProto:
    from nnhal_frontends import parse_onnx
    from nnhal_frontends.errors import InvalidModel

    try:
        return parse_onnx(content)
    except InvalidModel as error:
        raise InvalidModel(f"{name}: {error}") from error


def onnx_flow_model(name: str, model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], public: bool) -> FlowModel:
    """Return a model of ONNX by the framework's import; for the public flow each node as it is."""
    from nnhal_frontends import import_model
    from nnhal_mlip.command.onnx_operators import APART

    kinds = [node.op_type for node in model.graph.node]
    source = import_model(model, ModelFormat.ONNX, shapes=shapes, apart=APART if public else None)
    del model
    for tensor in source.inputs:
        _require_known(tensor)
    places = source.operation_places or [() for _ in source.operation_nodes]
    return _flow_model(
        name,
        source,
        [
            tuple(map(SourceNode, numbers, names, (kinds[number] for number in numbers)))
            for numbers, names in zip(places, source.operation_nodes, strict=True)
        ],
        public,
    )


def _require_known(tensor: ImportedTensor) -> None:
    if 0 in tensor.shape or tensor.element_type.hasobject:
        known = ",".join(str(length or 1) for length in tensor.shape)
        raise FlowError(
            f"input '{tensor.name}': got shape {describe(tensor.shape)}, expected every dimension to be known;"
            f" give the input's shape, such as {tensor.name}={known}"
        )


def _tflite(name: str, content: bytes, public: bool) -> FlowModel:
    from nnhal_frontends import import_usual

    return _flow_model(name, import_usual(content, ModelFormat.TFLITE), (), public)


def _flow_model(name: str, source: ImportedModel, sources: Sequence[tuple[SourceNode, ...]], public: bool) -> FlowModel:
    from nnhal_mlip.command.onnx_nodes import import_message
    from nnhal_mlip.importing.model_import import import_hal_model, is_opaque

    # The user asks for the accelerator's arithmetic, so float32 may be computed in fewer bits.
    relaxed = replace(source.model, relax_computation_float32_to_float16=True)
    imported = import_hal_model(replace(source.resolved(), model=relaxed), not public, sources, import_message)
    main = source.model.main

    def port(tensor: ImportedTensor, value: str, graph_value: str) -> FlowPort:
        kind = main.operands[tensor.operand]
        scale = kind.scale if tensor.element_type.kind in "iu" else 0.0
        shape = imported.graph.shape(graph_value) if tensor.shape else ()
        return FlowPort(tensor.name, value, shape, tensor.element_type, scale, kind.zero_point if scale else 0)

    inputs = []
    for tensor in source.inputs:
        value = imported.inputs[main.input_indexes.index(tensor.operand)]
        inputs.append(port(tensor, value, value))
    outputs = []
    for tensor in source.outputs:
        value = imported.outputs[main.output_indexes.index(tensor.operand)]
        outputs.append(port(tensor, value, imported.graph.outputs[value]))
    refused = (node.output for node in imported.graph.nodes if is_opaque(node))
    refusals = dict(zip(refused, imported.refusals.values(), strict=True))
    return FlowModel(name, imported.graph, tuple(inputs), tuple(outputs), refusals)
