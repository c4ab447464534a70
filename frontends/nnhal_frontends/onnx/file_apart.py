"""A file in ONNX whose large constants stay in its bytes, instead of being copied into the message and out of it again.

Messages of protobuf are walked through by the lengths of their fields. Whatever is not as writers of ONNX leave it is
left to who parses the whole file, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from nnhal.arrays import Array
from nnhal_frontends.content import ModelContent
from nnhal_frontends.onnx.usual_form import to_usual_form
from nnhal_frontends.onnx.weights_apart import LEAST_BYTES, OTHER_DATA, TYPES, is_constant

_LEAST_FILE_BYTES = 1 << 16
"""Smaller files are copied as fast as they are walked through."""
_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
_MORE, _LONGEST_VARINT = 0x80, 10
_Fields: TypeAlias = Mapping[int, "_Fields | None"]
_TENSOR: _Fields = {TensorProto.RAW_DATA_FIELD_NUMBER: None}
_NODE: _Fields = {NodeProto.ATTRIBUTE_FIELD_NUMBER: {AttributeProto.T_FIELD_NUMBER: _TENSOR}}
_NODES, _INITIALIZERS = GraphProto.NODE_FIELD_NUMBER, GraphProto.INITIALIZER_FIELD_NUMBER
_MODEL: _Fields = {ModelProto.GRAPH_FIELD_NUMBER: {_NODES: _NODE, _INITIALIZERS: _TENSOR}}
"""The fields in which large constants lie; None for the bytes themselves."""


class FileApart(NamedTuple):
    """A message without its large constants, which are views of the file."""

    model: ModelProto
    initializers: dict[str, Array]
    """By name."""
    constants: dict[str, Array]
    """The values of nodes Constant, by output."""


def read_apart(content: ModelContent) -> FileApart | None:
    """Read a file; None if it is not large, or to be parsed as a whole."""
    if len(content) < _LEAST_FILE_BYTES:
        return None
    walk = _Walk(content)
    try:
        model = ModelProto.FromString(b"".join(walk.light(0, len(content), _MODEL)))
    except (DecodeError, IndexError, ValueError):
        return None
    initializers: dict[str, Array] = {}
    constants: dict[str, Array] = {}
    for (kind, number), (start, length) in walk.found.items():
        if kind == _INITIALIZERS:
            tensor, into = model.graph.initializer[number], initializers
            name = tensor.name
        else:
            node, into = model.graph.node[number], constants
            if not is_constant(node):
                return None
            tensor, name = node.attribute[0].t, node.output[0]
        if not name or name in into or not _is_plain(tensor, length):
            return None
        element = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        into[name] = np.frombuffer(content, np.uint8, length, start).view(element).reshape(tuple(tensor.dims))
    once = len({tensor.name for tensor in model.graph.initializer}) == len(model.graph.initializer)
    return FileApart(to_usual_form(model), initializers, constants) if once else None


def _is_plain(tensor: TensorProto, length: int) -> bool:
    """Return whether so many bytes are all the values of a tensor."""
    return (
        tensor.data_type in TYPES
        and min(tensor.dims, default=0) > 0
        and prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize == length
        and not tensor.HasField("segment")
        and not (tensor.HasField("raw_data") or tensor.data_location or tensor.external_data)
        and not any(len(getattr(tensor, name)) for name in OTHER_DATA)
    )


class _Walk:
    def __init__(self, content: ModelContent) -> None:
        self._content, self._view = content, memoryview(content)
        self.found: dict[tuple[int, int], tuple[int, int]] = {}
        """Where large constants lie, by whether they are initializers or in nodes, and the index there."""
        self._counts = {_NODES: 0, _INITIALIZERS: 0}
        self._place = 0, 0

    def light(self, start: int, end: int, fields: _Fields) -> list[memoryview | bytes]:
        """The bytes of a message without its large constants. Raises IndexError or ValueError."""
        pieces: list[memoryview | bytes] = []
        kept = position = start
        is_graph = _INITIALIZERS in fields and _NODES in fields
        while position < end:
            at = position
            tag, position = self._varint(position)
            field, kind = tag >> 3, tag & 7
            if kind != _MESSAGE:
                position = self._after(kind, position)
                continue
            length_at = position
            length, position = self._varint(position)
            begin, position = position, position + length
            if position > end:
                raise ValueError("a field that is longer than its message")
            if field not in fields:
                continue
            if is_graph:
                self._place = field, self._counts[field]
                self._counts[field] += 1
            if length <= LEAST_BYTES:
                continue
            inner = fields[field]
            pieces.append(self._view[kept:at])
            kept = position
            if inner is None:
                if self._place in self.found:
                    raise ValueError("a tensor with its values twice")
                self.found[self._place] = begin, length
                continue
            within = self.light(begin, position, inner)
            pieces += [self._view[at:length_at], _encoded(sum(map(len, within))), *within]
        if position != end:
            raise ValueError("a field that is longer than its message")
        pieces.append(self._view[kept:end])
        return pieces

    def _after(self, kind: int, position: int) -> int:
        if kind == _VARINT:
            return self._varint(position)[1]
        if kind not in (_EIGHT_BYTES, _FOUR_BYTES):
            raise ValueError("a field of another kind")
        return position + (8 if kind == _EIGHT_BYTES else 4)

    def _varint(self, position: int) -> tuple[int, int]:
        """A number, and where it ends."""
        value = self._content[position]
        if value < _MORE:
            return value, position + 1
        value -= _MORE
        for count in range(1, _LONGEST_VARINT):
            byte = self._content[position + count]
            value |= (byte & (_MORE - 1)) << 7 * count
            if byte < _MORE:
                return value, position + count + 1
        raise ValueError("a number that does not end")


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value >= _MORE:
        found.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)
