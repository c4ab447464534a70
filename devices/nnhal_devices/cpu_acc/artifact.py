"""What a compilation cache keeps of a compiled model: the graph as ONNX Runtime has optimised it, with its weights.

The bytes are a magic, a digest of what they were made of and for, the lengths of a JSON text and of a ModelProto, both
of these, and the weights. The text has the operands of inputs and outputs by name, and where weights lie: those that
ONNX Runtime has not changed are constants of the model. ONNX Runtime optimises for the processor at hand, so the digest
covers its features.
"""

from __future__ import annotations

import hashlib
import json
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from google.protobuf.message import DecodeError
from onnx import ModelProto, helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import tensor_in_another_file
from nnhal.resolved import ResolvedModel
from nnhal_devices.cpu_acc.proto import external
from nnhal_devices.cpu_acc.session import INLINE_BYTES

_MAGIC = b"nnhal cpu_acc 1\0"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s32sQQ")
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class OptimisedGraph:
    """An optimised graph, and which operands its inputs and outputs are."""

    content: bytes
    """A serialised ModelProto."""
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    is_message: bool
    """Whether it is the graph of a message, whose element types it has (see ``LoweredGraph.element_type``)."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """The values of initializers whose data ``content`` lacks."""


def write_artifact(graph: OptimisedGraph, model: ResolvedModel) -> bytes:
    """Return the bytes for a graph that was made of a model; ``content`` has all of its weights."""
    proto = ModelProto.FromString(graph.content)
    places, blob = _set_weights_apart(proto, model)
    text = json.dumps([dict(graph.inputs), dict(graph.outputs), graph.is_message, places]).encode()
    content = proto.SerializeToString()
    head = b"".join((_HEADER.pack(_MAGIC, _origin(model), len(text), len(content)), text, content))
    return b"".join((head, bytes(-len(head) % _ALIGNMENT), *blob))


def read_artifact(data: bytes, model: ResolvedModel) -> OptimisedGraph | None:
    """Return the graph; None if the bytes are none, or were made of another model, elsewhere, or by another runtime.

    Weights are views of the bytes and of the model's constants.
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
        inputs, outputs, is_message, places = json.loads(data[_HEADER.size : start])
        weights = {name: _weights(place, blob, model) for name, place in places.items()}
        main = model.model.main
        fits = list(outputs.values()) == list(main.output_indexes) and set(inputs.values()) <= set(main.input_indexes)
        names = _tensors_elsewhere(ModelProto.FromString(content))
    except (AttributeError, DecodeError, LookupError, TypeError, ValueError):  # only a forged artifact gets here
        return None
    return OptimisedGraph(content, inputs, outputs, is_message, weights) if fits and names == set(weights) else None


def _set_weights_apart(proto: ModelProto, model: ResolvedModel) -> tuple[dict[str, list[object]], list[bytes]]:
    """Take the data of large initializers out of a message. Returns where each lies, and the data of some."""
    constants: dict[int, list[int]] = {}
    for index, values in model.constants[0].items():
        constants.setdefault(values.nbytes, []).append(index)
    places: dict[str, list[object]] = {}
    blob: list[bytes] = []
    end = 0
    for tensor in proto.graph.initializer:
        raw = tensor.raw_data
        if len(raw) <= INLINE_BYTES:
            continue
        element = helper.tensor_dtype_to_np_dtype(tensor.data_type).str
        same = (index for index in constants.get(len(raw), ()) if model.constants[0][index].tobytes() == raw)
        place = next(same, None)
        if place is None:
            blob += [raw, bytes(-len(raw) % _ALIGNMENT)]
            places[tensor.name] = [element, list(tensor.dims), end, None]
            end += len(blob[-2]) + len(blob[-1])
        else:
            places[tensor.name] = [element, list(tensor.dims), 0, place]
        tensor.CopyFrom(external(tensor.name, tensor.data_type, tensor.dims))
    return places, blob


def _weights(place: Sequence[Any], blob: memoryview, model: ResolvedModel) -> Array:
    """The values of an initializer. Raises LookupError, TypeError or ValueError if there are none."""
    element, dimensions, start, operand = place
    kind = np.dtype(element)
    size = kind.itemsize * prod(dimensions)
    if operand is not None:
        flat: Array = np.ascontiguousarray(model.constants[0][operand]).reshape(-1).view(np.uint8)
        if flat.nbytes != size:
            raise ValueError("a constant of another size")
        values: Array = flat.view(kind)
        return values.reshape(dimensions)
    return np.frombuffer(blob[start : start + size], kind).reshape(dimensions)


def _tensors_elsewhere(proto: ModelProto) -> set[str]:
    """The initializers whose data is given apart. Raises ValueError if any other tensor is to be read from a file."""
    names = {tensor.name for tensor in proto.graph.initializer if tensor.data_location or tensor.external_data}
    for tensor in proto.graph.initializer:
        if tensor.name in names and tensor.external_data[0].value != tensor.name:
            raise ValueError("data in a file")
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
    digest = hashlib.sha256(_machine())
    digest.update(repr((main.operations, ports)).encode())
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
