"""A model file as a flow graph, and how the user's arrays become values of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.given_files import MOST_MODEL_BYTES, open_given_file, read_given_file
from nnhal.support import Unsupported
from nnhal.types.layout import describe
from nnhal_frontends.tflite_identifier import is_tflite
from nnhal_mlip.flow.graph.flow_graph import FlowGraph

_HEAD_BYTES = 8
"""What of a file tells its format."""


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
    refusals: Mapping[int, Unsupported] = field(default_factory=dict)
    """Why operations of a TFLite model have no operator in the flow, by their numbers."""


def read_flow_model(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> FlowModel:
    """Read an ONNX or TFLite model; the content tells which it is. ``shapes`` fixes those of an ONNX model's inputs.

    Raises:
        OSError: the file cannot be read.
        FrontendError: it is no model.
        FlowError: the shape of an input is not known.
        ValueError: shapes are given for a TFLite model.
    """
    with open_given_file(path, "a model") as file:
        head = file.read(_HEAD_BYTES)
    if not is_tflite(head):
        return _onnx(path.name, path, shapes)  # which may have data in other files
    if shapes:
        raise ValueError(f"{path}: got --shape for a TFLite model, expected it for ONNX models alone")
    return _tflite(path.name, read_given_file(path, MOST_MODEL_BYTES, "a model"))


def flow_model(name: str, content: bytes, shapes: Mapping[str, Sequence[int]]) -> FlowModel:
    """Return the model of a file that is read already, and has all of its data. Raises as ``read_flow_model``."""
    return _tflite(name, content) if is_tflite(content) else _onnx(name, content, shapes)


def _onnx(name: str, source: Path | bytes, shapes: Mapping[str, Sequence[int]] | None) -> FlowModel:
    from nnhal_mlip.command.onnx_import import import_onnx_graph

    graph = import_onnx_graph(source, shapes)
    inputs = tuple(FlowPort(name, name, graph.shape(name), graph.values[name].element_type) for name in graph.inputs)
    outputs = tuple(
        FlowPort(user, user, graph.shape(name), graph.values[name].element_type) for user, name in graph.outputs.items()
    )
    return FlowModel(name, graph, inputs, outputs)


def _tflite(name: str, content: bytes) -> FlowModel:
    from nnhal_frontends.tflite import import_tflite
    from nnhal_mlip.importing.model_import import import_hal_model

    source = import_tflite(content)
    # The user asks for the accelerator's arithmetic, so float32 may be computed in fewer bits.
    relaxed = replace(source.model, relax_computation_float32_to_float16=True)
    imported = import_hal_model(replace(source.resolved(), model=relaxed))
    main = source.model.main

    def port(user: str, operand: int, element_type: np.dtype[np.generic], value: str, graph_value: str) -> FlowPort:
        kind = main.operands[operand]
        scale = kind.scale if element_type.kind in "iu" else 0.0
        shape = imported.graph.shape(graph_value)
        return FlowPort(user, value, shape, element_type, scale, kind.zero_point if scale else 0)

    inputs = []
    for tensor in source.inputs:
        value = imported.inputs[main.input_indexes.index(tensor.operand)]
        inputs.append(port(tensor.name, tensor.operand, tensor.element_type, value, value))
    outputs = []
    for tensor in source.outputs:
        value = imported.outputs[main.output_indexes.index(tensor.operand)]
        graph_value = imported.graph.outputs[value]
        outputs.append(port(tensor.name, tensor.operand, tensor.element_type, value, graph_value))
    return FlowModel(name, imported.graph, tuple(inputs), tuple(outputs), imported.refusals)
