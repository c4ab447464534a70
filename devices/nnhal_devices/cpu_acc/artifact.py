"""Parts of a compiled model that a compilation cache keeps: the graph as ONNX Runtime has optimised it, with its
weights.

The bytes are a magic, a digest of what they were made of and for, the lengths of a JSON text and of a ModelProto, both
of these, and the weights. The text has the operands of inputs and outputs by name, and where weights lie. ONNX Runtime
optimises for the processor at hand, so the digest covers its features.
"""

from __future__ import annotations

import hashlib
import json
import platform
import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from google.protobuf.message import DecodeError
from onnx import ModelProto

from nnhal.arrays import Array
from nnhal.extensions.onnx import FILE_KEY, NUMBERS, number_of, tensor_in_another_file
from nnhal.given_files import parse_json
from nnhal.resolved import ResolvedModel
from nnhal.types import OperandType
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.messages import node_count
from nnhal_devices.cpu_acc.optimised import INLINE_BYTES

_MAGIC = b"nnhal cpu_acc 3\0"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s32sQQ")
_ALIGNMENT = 64
_ALWAYS_KEPT_BYTES, _MOST_BYTES = 16 << 10, 512 << 20
_MOST_BYTES_PER_NODE = 64 << 10
"""Compiling takes some 0.2 ms for each node; an entry takes 1 to 2 ms for any model, and 1 to 2 ns for each byte. A
framework need not import a model that is restored, which takes as long again.
"""
_WEIGHTS = {OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, *QUANTIZED}
_EXTENSION_WEIGHTS = {NUMBERS[np.dtype(kind)] for kind in (np.float16, np.float32, np.float64, np.int8, np.uint8)}


@dataclass(frozen=True, slots=True)
class OptimisedGraph:
    """An optimised graph, and which operands its inputs and outputs are."""

    content: bytes
    """A serialised ModelProto."""
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    is_message: bool
    """True if it is the graph of a message, whose element types it has (see ``LoweredGraph.element_type``)."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """The values of initializers whose data ``content`` lacks."""


def gains_by_restoring(graph: LoweredGraph, model: ResolvedModel) -> bool:
    """True if a model is worth keeping: a few operations with large weights are compiled as fast as they are read."""
    weights = weights_of(model)
    # What is no weight of its own, such as a message with weights in it, is kept beside the graph that has them, too.
    size = sum(values.nbytes * (1 if index in weights else 2) for index, values in model.constants[0].items())
    nodes = len(graph.nodes) + (0 if graph.message is None else node_count(graph.message))
    most = min(nodes * _MOST_BYTES_PER_NODE, _MOST_BYTES)
    return size <= max(_ALWAYS_KEPT_BYTES, most)


def weights_of(model: ResolvedModel) -> set[int]:
    """The large constants of main that are numbers to compute with, as operands: an artifact has their values."""
    return {
        index
        for index, values in model.constants[0].items()
        if values.nbytes > INLINE_BYTES and _is_weight(model, model.model.main.operands[index].type)
    }


def _is_weight(model: ResolvedModel, code: int) -> bool:
    number = number_of(model.model, code)
    return code in _WEIGHTS if number is None else number in _EXTENSION_WEIGHTS


def write_artifact(graph: OptimisedGraph, model: ResolvedModel) -> list[memoryview]:
    """Return the bytes for a graph that was made of a model, in pieces: the weights are not copied."""
    places, data = _places(graph.weights)
    text = json.dumps([dict(graph.inputs), dict(graph.outputs), graph.is_message, places]).encode()
    header = _HEADER.pack(_MAGIC, _origin(model), len(text), len(graph.content))
    head = b"".join((header, text, graph.content))
    return [memoryview(head + bytes(-len(head) % _ALIGNMENT)), *data]


def read_artifact(data: bytes, model: ResolvedModel) -> OptimisedGraph | None:
    """Return the graph; None if there are no bytes, or they were made of another model, elsewhere, or by another
    runtime.

    Weights are views of the bytes.
    """
    if len(data) < _HEADER.size:
        return None
    magic, origin, text_bytes, proto_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC or origin != _origin(model):
        return None
    start = _HEADER.size + text_bytes
    end = start + proto_bytes
    content, blob = data[start:end], memoryview(data)[end + -end % _ALIGNMENT :]
    try:
        inputs, outputs, is_message, places = parse_json(data[_HEADER.size : start])
        weights = {name: _weights(place, blob) for name, place in places.items()}
        main = model.model.main
        fits = list(outputs.values()) == list(main.output_indexes) and set(inputs.values()) <= set(main.input_indexes)
        names = _tensors_elsewhere(content)
    except (AttributeError, DecodeError, LookupError, TypeError, ValueError):  # only a forged artifact gets here
        return None
    return OptimisedGraph(content, inputs, outputs, is_message, weights) if fits and names == set(weights) else None


def _places(weights: Mapping[str, Array]) -> tuple[dict[str, list[object]], list[memoryview]]:
    """The type, dimensions and start of each weight, and the data of all."""
    places: dict[str, list[object]] = {}
    data: list[memoryview] = []
    end = 0
    for name, values in weights.items():
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        padding = memoryview(bytes(-len(flat) % _ALIGNMENT))
        places[name] = [values.dtype.str, list(values.shape), end]
        data += [flat.data, padding]
        end += len(flat) + len(padding)
    return places, data


def _weights(place: Sequence[Any], data: memoryview) -> Array:
    """The values of an initializer. Raises LookupError, TypeError or ValueError if there are none."""
    element, dimensions, start = place
    kind = np.dtype(element)
    return np.frombuffer(data[start : start + kind.itemsize * prod(dimensions)], kind).reshape(dimensions)


def _tensors_elsewhere(content: bytes) -> set[str]:
    """The initializers whose data is given apart. Raises ValueError if any other tensor is to be read from a file."""
    proto = ModelProto.FromString(content)
    elsewhere = [tensor for tensor in proto.graph.initializer if tensor.data_location or tensor.external_data]
    if any([(at.key, at.value) for at in tensor.external_data] != [(FILE_KEY, tensor.name)] for tensor in elsewhere):
        raise ValueError("data in a file")
    names = {tensor.name for tensor in elsewhere}
    # Whatever else is to be read from a file has this key once more, so that most graphs need not be searched.
    if content.count(FILE_KEY.encode()) > sum(1 + 2 * name.count(FILE_KEY) for name in names):
        kept = [tensor for tensor in proto.graph.initializer if tensor.name not in names]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        if tensor_in_another_file(proto) is not None:
            raise ValueError("data in a file")
    return names


def _origin(model: ResolvedModel) -> bytes:
    """A digest of a model's operations and of the machine. The cache itself tells other constants apart."""
    main = model.model.main
    ports = [(index, main.operands[index]) for index in (*main.input_indexes, *main.output_indexes)]
    operations = array("q")
    for each in main.operations:
        operations.extend((each.type, len(each.inputs), *each.inputs, len(each.outputs), *each.outputs))
    digest = hashlib.sha256(_machine())
    digest.update(operations.tobytes())
    digest.update(repr(ports).encode())
    return digest.digest()


@cache
def _machine() -> bytes:
    """A digest of ONNX Runtime's version and the features of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    return hashlib.sha256(repr((onnxruntime.__version__, platform.machine(), sorted(features))).encode()).digest()
