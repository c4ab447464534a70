"""Read a TFLite file: from an untrusted flatbuffer to checked graphs."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np
from tflite import BuiltinOperator, BuiltinOptions, SparseIndexVector

from nnhal.arrays import Array, Bytes
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
from nnhal_frontends.tflite import schema
from nnhal_frontends.tflite.graph import (
    BUILTIN,
    CUSTOM,
    NO_OPTIONS,
    SECOND_OPTIONS,
    OptionsVector,
    TfliteGraph,
    TfliteOperator,
    TfliteQuantization,
    TfliteTensor,
)
from nnhal_frontends.tflite.options import VECTORS, field_places
from nnhal_frontends.tflite.signatures import TfliteSignature
from nnhal_frontends.tflite.sparsity import SparseLevel, TfliteSparsity
from nnhal_frontends.tflite.tables import Kind, Tables
from nnhal_frontends.tflite_identifier import IDENTIFIER, is_tflite

VERSION = 3
OPERATOR_NAMES = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
_EMPTY: Bytes = np.zeros(0, np.uint8)
_INDEXES: dict[int, np.dtype[np.generic]] = {
    SparseIndexVector.Int32Vector: np.dtype(np.int32),
    SparseIndexVector.Uint16Vector: np.dtype(np.uint16),
    SparseIndexVector.Uint8Vector: np.dtype(np.uint8),
}
_WIDEST = 8
"""Bytes of the largest scalar."""


def read_graphs(content: ModelContent, limits: ImportLimits = DEFAULT_LIMITS) -> tuple[TfliteGraph, ...]:
    """Return the subgraphs of a TFLite file, the main one first. Constants are views of ``content``.

    Raises InvalidModel if the file is malformed.
    """
    return read_file(content, limits)[0]


def read_file(
    content: ModelContent, limits: ImportLimits = DEFAULT_LIMITS
) -> tuple[tuple[TfliteGraph, ...], tuple[TfliteSignature, ...]]:
    """Return the subgraphs of a TFLite file, as ``read_graphs`` does, and its signatures. Raises InvalidModel."""
    if not is_tflite(content):
        raise InvalidModel(
            f"not a TFLite model: bytes 4 to 8 are {content[4:8].hex() or 'missing'}, expected {IDENTIFIER.hex()}"
        )
    try:
        reader = _Reader(content, limits)
        graphs, signatures = reader.graphs(), reader.signatures()
    except (struct.error, TypeError, ValueError) as error:
        # What reads tables raises these if an offset points outside the file.
        raise InvalidModel("the TFLite file is truncated or corrupt: an offset in it leads out of the file") from error
    for graph in graphs:
        _require_order(graph)
    return graphs, signatures


class _Reader:
    """One pass over a file. A file that is shorter than the sum of its vectors is refused."""

    def __init__(self, content: ModelContent, limits: ImportLimits) -> None:
        self._content = content
        self._nodes_left = limits.nodes
        self._limits = limits
        self._left = len(content)
        self._file = Tables(content)
        self._model = self._file.root(schema.ModelTable)

    def graphs(self) -> tuple[TfliteGraph, ...]:
        model = self._model
        if model.version != VERSION:
            raise InvalidModel(f"the TFLite file is of schema version {model.version}, expected {VERSION}")
        sources = self._tables(schema.SubGraphTable, model.subgraphs)
        if not sources:
            raise InvalidModel("the TFLite file has no subgraph")
        buffers = [self._data(buffer) for buffer in self._tables(schema.BufferTable, model.buffers)]
        codes = [self._code(code) for code in self._tables(schema.OperatorCodeTable, model.operator_codes)]
        return tuple(self._graph(source, number, codes, buffers) for number, source in enumerate(sources))

    def signatures(self) -> tuple[TfliteSignature, ...]:
        """Return the entry points."""
        return tuple(
            TfliteSignature(
                self._text(found.signature_key),
                found.subgraph_index,
                self._ends(found.inputs),
                self._ends(found.outputs),
            )
            for found in self._tables(schema.SignatureDefTable, self._model.signature_defs)
        )

    def _ends(self, place: int) -> tuple[tuple[str, int], ...]:
        return tuple((self._text(end.name), end.tensor_index) for end in self._tables(schema.TensorMapTable, place))

    def _graph(
        self, source: schema.SubGraphTable, number: int, codes: list[tuple[str, int]], buffers: list[Bytes]
    ) -> TfliteGraph:
        place = f"subgraph_{number}/" if number else ""
        tensors = tuple(
            self._tensor(tensor, index, buffers)
            for index, tensor in enumerate(self._tables(schema.TensorTable, source.tensors))
        )
        self._nodes_left -= self._file.vector(source.operators)[1]
        if self._nodes_left < 0:
            raise InvalidModel(f"the file has more than {self._limits.nodes} operators, the most that are allowed")
        operators = tuple(
            self._operator(operator, index, codes, tensors, place)
            for index, operator in enumerate(self._tables(schema.OperatorTable, source.operators))
        )
        inputs, outputs = self._numbers(source.inputs), self._numbers(source.outputs)
        for what, indexes in (("inputs", inputs), ("outputs", outputs)):
            if not _are_within(indexes, len(tensors)):
                raise _wrong_indexes(f"the {what} of subgraph {number}", indexes, len(tensors))
        if not outputs and not number:
            raise InvalidModel("the file has no outputs")
        return TfliteGraph(_with_empty_constants(tensors, operators, inputs), operators, inputs, outputs)

    def _tables(self, kind: type[Kind], place: int) -> list[Kind]:
        """Return a vector of tables."""
        self._vector(place)
        return [self._file.at(kind, position) for position in self._file.places(place)]

    def _vector(self, place: int, element_bytes: int = 1) -> tuple[int, int]:
        """Return where a vector begins, and its length. Elements that take no memory elsewhere count as one byte."""
        start, length = self._file.vector(place)
        self._take(length * element_bytes)
        return start, length

    def _take(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise InvalidModel(f"vectors are longer than the TFLite file's {len(self._content)} bytes")

    def _numbers(self, place: int, letter: str = "i") -> tuple[Any, ...]:
        """Return a vector of numbers, by default integers of 32 bits."""
        found = self._file.numbers(place, letter)
        self._take(len(found))
        return found

    def _bytes(self, place: int) -> bytes:
        """Return a vector of bytes."""
        if not place:
            return b""
        start, length = self._vector(place)
        return self._content[start : start + length]

    def _text(self, place: int) -> str:
        return self._bytes(place).decode(errors="replace")

    def _data(self, buffer: schema.BufferTable) -> Bytes:
        """Return the bytes of a buffer: in the flatbuffer, or behind it in files of more than 2 GiB."""
        if buffer.offset > 1:
            if buffer.offset + buffer.size > len(self._content):
                got = f"a buffer of {buffer.size} bytes at {buffer.offset}"
                raise InvalidModel(f"{got}, the file has {len(self._content)}")
            return np.frombuffer(self._content, np.uint8, buffer.size, buffer.offset)
        start, size = self._file.vector(buffer.data)
        return np.frombuffer(self._content, np.uint8, size, start) if start else _EMPTY

    def _code(self, code: schema.OperatorCodeTable) -> tuple[str, int]:
        """Return an operator's name and version. In old files the code is in a field of its own."""
        number = max(code.builtin_code, code.deprecated_builtin_code)
        if number == BuiltinOperator.CUSTOM:
            return f"{CUSTOM}{self._text(code.custom_code)}", code.version
        return OPERATOR_NAMES.get(number, f"{BUILTIN}{number}"), code.version

    def _tensor(self, tensor: schema.TensorTable, index: int, buffers: list[Bytes]) -> TfliteTensor:
        name = self._text(tensor.name) or f"tensor_{index}"
        if tensor.buffer >= len(buffers):
            raise InvalidModel(f"tensor '{name}' lies in buffer {tensor.buffer}, the file has {len(buffers)}")
        shape, initial = _shapes(name, self._numbers(tensor.shape), self._numbers(tensor.shape_signature))
        data = buffers[tensor.buffer]
        return TfliteTensor(
            name,
            tensor.type,
            shape,
            initial,
            self._quantization(name, len(shape), tensor.quantization) if tensor.quantization else None,
            tensor.is_variable,
            self._sparsity(name, tensor.sparsity) if tensor.sparsity else None,
            data if len(data) or tensor.sparsity else None,
            tensor.has_rank,
        )

    def _sparsity(self, name: str, place: int) -> TfliteSparsity:
        found = self._file.at(schema.SparsityParametersTable, place)
        return TfliteSparsity(
            self._numbers(found.traversal_order),
            self._numbers(found.block_map),
            tuple(
                SparseLevel(
                    level.format,
                    level.dense_size,
                    self._indexes(name, level.array_segments_type, level.array_segments),
                    self._indexes(name, level.array_indices_type, level.array_indices),
                )
                for level in self._tables(schema.DimensionMetadataTable, found.dim_metadata)
            ),
        )

    def _indexes(self, name: str, kind: int, place: int) -> Array:
        """Return the integers of a level, of any of the widths that the schema has for them."""
        if not place or kind == SparseIndexVector.NONE:
            return _EMPTY
        if kind not in _INDEXES:
            raise InvalidModel(f"tensor '{name}' has sparse indexes of type {kind}, expected 1 to {len(_INDEXES)}")
        element = _INDEXES[kind]
        start, length = self._vector(self._file.at(schema.Int32VectorTable, place).values, element.itemsize)
        return np.frombuffer(self._content, element, length, start) if start else _EMPTY

    def _quantization(self, name: str, rank: int, place: int) -> TfliteQuantization | None:
        found = self._file.at(schema.QuantizationParametersTable, place)
        scales, zero_points = self._numbers(found.scale, "f"), self._numbers(found.zero_point, "q")
        if not scales:
            return None  # only a range observed in training
        if len(zero_points) not in (0, 1, len(scales)):
            raise InvalidModel(f"tensor '{name}' has {len(scales)} scales and {len(zero_points)} zero points")
        if not all(isfinite(scale) for scale in scales):
            raise InvalidModel(f"tensor '{name}' has scales that are not finite")
        axis = found.quantized_dimension
        if len(scales) > 1 and not 0 <= axis < rank:
            raise InvalidModel(f"tensor '{name}' of rank {rank} has a scale for each index along axis {axis}")
        if len(zero_points) < len(scales):
            zero_points = (zero_points or (0,)) * len(scales)
        return TfliteQuantization(scales, zero_points, axis)

    def _operator(
        self,
        operator: schema.OperatorTable,
        index: int,
        codes: list[tuple[str, int]],
        tensors: tuple[TfliteTensor, ...],
        place: str,
    ) -> TfliteOperator:
        if operator.opcode_index >= len(codes):
            raise InvalidModel(f"operator {index} has code {operator.opcode_index}, the file has {len(codes)}")
        inputs, outputs = self._numbers(operator.inputs), self._numbers(operator.outputs)
        given = tuple(i for i in inputs if i != -1) if -1 in inputs else inputs
        for what, indexes in (("inputs", given), ("outputs", outputs)):
            if not _are_within(indexes, len(tensors)):
                raise _wrong_indexes(f"the {what} of operator {index}", indexes, len(tensors))
        code, version = codes[operator.opcode_index]
        kind, options = operator.builtin_options_type, operator.builtin_options
        if not options and operator.builtin_options_2:
            kind, options = SECOND_OPTIONS + operator.builtin_options_2_type, operator.builtin_options_2
        table = _own_table(self._content, options) if options else NO_OPTIONS
        return TfliteOperator(
            f"{place}{code}_{index}:{tensors[outputs[0]].name if outputs else ''}",
            code,
            inputs if given is inputs else tuple(None if i == -1 else i for i in inputs),
            outputs,
            kind if options else BuiltinOptions.NONE,
            table,
            self._vectors(VECTORS[kind], options, table) if options and kind in VECTORS else (),
            version,
            self._bytes(operator.custom_options),
        )

    def _vectors(self, lengths: Mapping[int, int], position: int, table: bytes) -> tuple[OptionsVector, ...]:
        """Return the vectors among an operator's options, whose elements have ``lengths`` of bytes by their fields."""
        found, places = [], field_places(table)
        for field, element_bytes in lengths.items():
            if field < len(places) and places[field]:
                place = position + places[field]
                start, length = self._vector(place + struct.unpack_from("<I", self._content, place)[0])
                size = length * (element_bytes or 1)
                content = bytes(self._content[start : start + size])
                if len(content) != size:
                    raise InvalidModel(f"an operator has {length} numbers among its options, the file ends before")
                found.append(OptionsVector(field, element_bytes, content))
        return tuple(found)


def _with_empty_constants(
    tensors: tuple[TfliteTensor, ...], operators: tuple[TfliteOperator, ...], inputs: tuple[int, ...]
) -> tuple[TfliteTensor, ...]:
    """Return the tensors, with those as constants that have no elements and that nothing writes.

    Their buffers are empty like those of computed tensors.
    """
    written = {index for operator in operators for index in operator.outputs}.union(inputs)
    return tuple(
        tensor._replace(data=_EMPTY)
        if tensor.data is None and 0 in tensor.initial_shape and index not in written
        else tensor
        for index, tensor in enumerate(tensors)
    )


def _own_table(content: ModelContent, position: int) -> bytes:
    """Copy one table, behind its field offsets, so that its scalars can be read without checking bounds."""
    (distance,) = struct.unpack_from("<i", content, position)
    start = position - distance
    if start < 0:
        raise ValueError(f"the fields of a table lie at {start}")
    length, size = struct.unpack_from("<HH", content, start)
    body = content[position + 4 : position + size]
    if length < 4 or length % 2 or len(body) != size - 4:
        raise ValueError(f"a table of {size} bytes with {length} bytes of offsets at {position}")
    offsets = struct.unpack_from(f"<{length // 2}H", content, start)[2:]
    if max(offsets, default=0) >= size:
        raise ValueError(f"a field at {max(offsets)} of a table of {size} bytes")
    absent = (0,) * ((position - length) % _WIDEST // 2)  # so that the table has the alignment that it has in the file
    length += 2 * len(absent)
    fields = (*offsets, *absent)
    return struct.pack(f"<HH{len(fields)}Hi", length, size, *fields, length) + body + bytes(_WIDEST)


def _shapes(name: str, shape: tuple[int, ...], signature: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lengths, 0 for those that may change, for which the signature has -1; and what they begin with."""
    if not signature and (not shape or min(shape) >= 0):
        return shape, shape
    if len(signature) not in (0, len(shape)):
        raise InvalidModel(f"tensor '{name}' has shape {list(shape)} and signature {list(signature)}")
    if min((*shape, *signature), default=0) < -1:
        raise InvalidModel(f"tensor '{name}' has shape {list(shape)}, expected lengths of 0 or more")
    initial = tuple(max(length, 0) for length in shape) if -1 in shape else shape
    if -1 not in signature:
        return initial, initial
    return tuple(0 if end == -1 else length for length, end in zip(initial, signature, strict=True)), initial


def _are_within(indexes: tuple[int, ...], count: int) -> bool:
    return not indexes or 0 <= min(indexes) <= max(indexes) < count


def _wrong_indexes(what: str, indexes: tuple[int, ...], count: int) -> InvalidModel:
    return InvalidModel(f"{what} are tensors {list(indexes)}, the file has {count}")


def _require_order(graph: TfliteGraph) -> None:
    """Raise InvalidModel if a tensor is read before it is written, or written twice."""
    known = {index for index, tensor in enumerate(graph.tensors) if tensor.data is not None or tensor.variable}
    for index in graph.inputs:
        if index in known:
            raise InvalidModel(f"tensor '{graph.tensors[index].name}' is an input twice, or a constant")
        known.add(index)
    for operator in graph.operators:
        for read in operator.inputs:
            if read is not None and read not in known:
                raise InvalidModel(
                    f"operator '{operator.name}' reads '{graph.tensors[read].name}', which nothing has written before"
                )
        for index in operator.outputs:
            if index in known:
                raise InvalidModel(
                    f"operator '{operator.name}' writes '{graph.tensors[index].name}', which has a value"
                )
            known.add(index)
    for index in graph.outputs:
        if index not in known:
            raise InvalidModel(f"output '{graph.tensors[index].name}' has no value")
