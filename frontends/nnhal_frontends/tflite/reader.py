"""Read a TFLite file: from an untrusted flatbuffer to checked graphs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import tflite
from tflite import BuiltinOperator, BuiltinOptions, SparseIndexVector

from nnhal.arrays import Array, Bytes
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import DEFAULT_LIMITS, ImportLimits
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
from nnhal_frontends.tflite.options import VECTORS
from nnhal_frontends.tflite.schema import (
    BufferField,
    CodeField,
    ModelField,
    OperatorField,
    QuantizationField,
    SubgraphField,
    TensorField,
)
from nnhal_frontends.tflite.signatures import TfliteSignature
from nnhal_frontends.tflite.sparsity import SparseLevel, TfliteSparsity
from nnhal_frontends.tflite.tables import (
    BOOL,
    INT8,
    INT32,
    UINT8,
    UINT32,
    UINT64,
    Table,
    integers_at,
    reals_at,
    tables_at,
)
from nnhal_frontends.tflite_identifier import IDENTIFIER, is_tflite

VERSION = 3
_OPERATOR_NAMES = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
_EMPTY: Bytes = np.zeros(0, np.uint8)
_INDEXES: dict[int, Any] = {
    SparseIndexVector.Int32Vector: tflite.Int32Vector,
    SparseIndexVector.Uint16Vector: tflite.Uint16Vector,
    SparseIndexVector.Uint8Vector: tflite.Uint8Vector,
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
        # The accessors raise these if an offset points outside the file.
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

    def graphs(self) -> tuple[TfliteGraph, ...]:
        model = Table.root(self._content)
        version = model.scalar(ModelField.VERSION, UINT32)
        if version != VERSION:
            raise InvalidModel(f"the TFLite file is of schema version {version}, expected {VERSION}")
        sources = self._vector(model, ModelField.SUBGRAPHS)
        if not sources:
            raise InvalidModel("the TFLite file has no subgraph")
        buffers = [self._data(buffer) for buffer in self._vector(model, ModelField.BUFFERS)]
        codes = [self._code(code) for code in self._vector(model, ModelField.OPERATOR_CODES)]
        return tuple(self._graph(source, number, codes, buffers) for number, source in enumerate(sources))

    def signatures(self) -> tuple[TfliteSignature, ...]:
        """Return the entry points."""
        model = tflite.Model.GetRootAs(self._content)
        found = self._tables(model.SignatureDefsLength(), model.SignatureDefs)
        return tuple(
            TfliteSignature(
                self._text(signature.SignatureKey()),
                signature.SubgraphIndex(),
                self._ends(signature.InputsLength(), signature.Inputs),
                self._ends(signature.OutputsLength(), signature.Outputs),
            )
            for signature in found
        )

    def _ends(self, length: int, get: Callable[[int], Any]) -> tuple[tuple[str, int], ...]:
        return tuple((self._text(end.Name()), end.TensorIndex()) for end in self._tables(length, get))

    def _graph(self, source: Table, number: int, codes: list[tuple[str, int]], buffers: list[Bytes]) -> TfliteGraph:
        place = f"subgraph_{number}/" if number else ""
        tensors = tuple(
            self._tensor(tensor, index, buffers)
            for index, tensor in enumerate(self._vector(source, SubgraphField.TENSORS))
        )
        self._nodes_left -= source.vector(SubgraphField.OPERATORS)[1]
        if self._nodes_left < 0:
            raise InvalidModel(f"the file has more than {self._limits.nodes} operators, the most that are allowed")
        operators = tuple(
            self._operator(operator, index, codes, tensors, place)
            for index, operator in enumerate(self._vector(source, SubgraphField.OPERATORS))
        )
        inputs = self._integers(source, SubgraphField.INPUTS)
        outputs = self._integers(source, SubgraphField.OUTPUTS)
        for what, indexes in (("inputs", inputs), ("outputs", outputs)):
            _require_indexes(indexes, len(tensors), f"the {what} of subgraph {number}")
        if not outputs and not number:
            raise InvalidModel("the file has no outputs")
        return TfliteGraph(_with_empty_constants(tensors, operators, inputs), operators, inputs, outputs)

    def _tables(self, length: int, get: Callable[[int], Any]) -> list[Any]:
        self._take(length)
        return [get(index) for index in range(length)]

    def _vector(self, table: Table, field: int) -> list[Table]:
        """Return a vector of tables."""
        start, length = table.vector(field)
        self._take(length)
        return tables_at(self._content, start, length)

    def _integers(self, table: Table, field: int, letter: str = "i") -> tuple[int, ...]:
        """Return a vector of integers, by default of 32 bits."""
        start, length = table.vector(field)
        self._take(length)
        return integers_at(self._content, start, length, letter)

    def _reals(self, table: Table, field: int) -> tuple[float, ...]:
        """Return a vector of float32."""
        start, length = table.vector(field)
        self._take(length)
        return reals_at(self._content, start, length)

    def _bytes(self, table: Table, field: int) -> bytes:
        """Return a vector of bytes."""
        start, length = table.vector(field)
        self._take(length)
        return self._content[start : start + length]

    def _name(self, table: Table, field: int) -> str:
        return self._bytes(table, field).decode(errors="replace")

    def _numbers(self, found: Any) -> tuple[Any, ...]:
        """Return a vector. The accessors give 0 for one that is left out."""
        if isinstance(found, int):
            return ()
        self._take(len(found))
        return tuple(found.tolist())

    def _text(self, found: bytes | None) -> str:
        self._take(len(found or b""))
        return (found or b"").decode(errors="replace")

    def _take(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise InvalidModel(f"vectors are longer than the TFLite file's {len(self._content)} bytes")

    def _data(self, buffer: Table) -> Bytes:
        """Return the bytes of a buffer: in the flatbuffer, or behind it in files of more than 2 GiB."""
        start, size = buffer.scalar(BufferField.OFFSET, UINT64), buffer.scalar(BufferField.SIZE, UINT64)
        if start > 1:
            if start + size > len(self._content):
                raise InvalidModel(f"a buffer of {size} bytes at {start}, the file has {len(self._content)}")
            return np.frombuffer(self._content, np.uint8, size, start)
        start, size = buffer.vector(BufferField.DATA)
        return np.frombuffer(self._content, np.uint8, size, start) if start else _EMPTY

    def _code(self, code: Table) -> tuple[str, int]:
        """Return an operator's name and version. In old files the code is in a field of its own."""
        version = code.scalar(CodeField.VERSION, INT32, 1)
        number = max(code.scalar(CodeField.BUILTIN_CODE, INT32), code.scalar(CodeField.DEPRECATED_BUILTIN_CODE, INT8))
        if number == BuiltinOperator.CUSTOM:
            return f"{CUSTOM}{self._name(code, CodeField.CUSTOM_CODE)}", version
        return _OPERATOR_NAMES.get(number, f"{BUILTIN}{number}"), version

    def _tensor(self, tensor: Table, index: int, buffers: list[Bytes]) -> TfliteTensor:
        name = self._name(tensor, TensorField.NAME) or f"tensor_{index}"
        buffer = tensor.scalar(TensorField.BUFFER, UINT32)
        if buffer >= len(buffers):
            raise InvalidModel(f"tensor '{name}' lies in buffer {buffer}, the file has {len(buffers)}")
        shape = self._integers(tensor, TensorField.SHAPE)
        signature = self._integers(tensor, TensorField.SHAPE_SIGNATURE)
        data, sparsity = buffers[buffer], tensor.table(TensorField.SPARSITY)
        return TfliteTensor(
            name,
            tensor.scalar(TensorField.TYPE, INT8),
            _shape(name, shape, signature),
            tuple(max(length, 0) for length in shape),
            self._quantization(name, len(shape), tensor.table(TensorField.QUANTIZATION)),
            bool(tensor.scalar(TensorField.IS_VARIABLE, BOOL)),
            self._sparsity(name, sparsity),
            data if len(data) or sparsity is not None else None,
        )

    def _sparsity(self, name: str, table: Table | None) -> TfliteSparsity | None:
        if table is None:
            return None
        found = tflite.SparsityParameters()
        found.Init(table.content, table.position)
        levels = self._tables(found.DimMetadataLength(), found.DimMetadata)
        return TfliteSparsity(
            self._numbers(found.TraversalOrderAsNumpy()),
            self._numbers(found.BlockMapAsNumpy()),
            tuple(
                SparseLevel(
                    level.Format(),
                    level.DenseSize(),
                    self._indexes(name, level.ArraySegmentsType(), level.ArraySegments()),
                    self._indexes(name, level.ArrayIndicesType(), level.ArrayIndices()),
                )
                for level in levels
            ),
        )

    def _indexes(self, name: str, kind: int, found: Any) -> Array:
        """Return the integers of a level, of any of the widths that the schema has for them."""
        if found is None or kind == SparseIndexVector.NONE:
            return _EMPTY
        if kind not in _INDEXES:
            raise InvalidModel(f"tensor '{name}' has sparse indexes of type {kind}, expected 1 to {len(_INDEXES)}")
        vector = _INDEXES[kind]()
        vector.Init(found.Bytes, found.Pos)
        values = vector.ValuesAsNumpy()
        if isinstance(values, int):
            return _EMPTY
        self._take(values.nbytes)
        return np.asarray(values)

    def _quantization(self, name: str, rank: int, found: Table | None) -> TfliteQuantization | None:
        if found is None:
            return None
        scales = self._reals(found, QuantizationField.SCALE)
        zero_points = self._integers(found, QuantizationField.ZERO_POINT, "q")
        if not scales:
            return None  # only a range observed in training
        if len(zero_points) not in (0, 1, len(scales)):
            raise InvalidModel(f"tensor '{name}' has {len(scales)} scales and {len(zero_points)} zero points")
        if not all(isfinite(scale) for scale in scales):
            raise InvalidModel(f"tensor '{name}' has scales that are not finite")
        axis = found.scalar(QuantizationField.QUANTIZED_DIMENSION, INT32)
        if len(scales) > 1 and not 0 <= axis < rank:
            raise InvalidModel(f"tensor '{name}' of rank {rank} has a scale for each index along axis {axis}")
        if len(zero_points) < len(scales):
            zero_points = (zero_points or (0,)) * len(scales)
        return TfliteQuantization(scales, zero_points, axis)

    def _operator(
        self, operator: Table, index: int, codes: list[tuple[str, int]], tensors: tuple[TfliteTensor, ...], place: str
    ) -> TfliteOperator:
        opcode = operator.scalar(OperatorField.OPCODE_INDEX, UINT32)
        if opcode >= len(codes):
            raise InvalidModel(f"operator {index} has code {opcode}, the file has {len(codes)}")
        inputs = self._integers(operator, OperatorField.INPUTS)
        outputs = self._integers(operator, OperatorField.OUTPUTS)
        _require_indexes([i for i in inputs if i != -1], len(tensors), f"the inputs of operator {index}")
        _require_indexes(outputs, len(tensors), f"the outputs of operator {index}")
        code, version = codes[opcode]
        kind = operator.scalar(OperatorField.BUILTIN_OPTIONS_TYPE, UINT8)
        options = operator.table(OperatorField.BUILTIN_OPTIONS)
        if options is None and operator.has(OperatorField.BUILTIN_OPTIONS_2):
            kind = SECOND_OPTIONS + operator.scalar(OperatorField.BUILTIN_OPTIONS_2_TYPE, UINT8)
            options = operator.table(OperatorField.BUILTIN_OPTIONS_2)
        return TfliteOperator(
            f"{place}{code}_{index}:{tensors[outputs[0]].name if outputs else ''}",
            code,
            tuple(None if i == -1 else i for i in inputs),
            outputs,
            BuiltinOptions.NONE if options is None else kind,
            NO_OPTIONS if options is None else _own_table(self._content, options.position),
            () if options is None else self._vectors(kind, options),
            version,
            self._bytes(operator, OperatorField.CUSTOM_OPTIONS),
        )

    def _vectors(self, kind: int, options: Table) -> tuple[OptionsVector, ...]:
        """Return the vectors among an operator's options; empty for most kinds of options."""
        found = []
        for field, element_bytes in VECTORS.get(kind, {}).items():
            if options.has(field):
                start, length = options.vector(field)
                self._take(length)
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
        replace(tensor, data=_EMPTY)
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


def _shape(name: str, shape: tuple[int, ...], signature: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths, 0 for those that may change, for which the signature has -1."""
    if len(signature) not in (0, len(shape)):
        raise InvalidModel(f"tensor '{name}' has shape {list(shape)} and signature {list(signature)}")
    if min((*shape, *signature), default=0) < -1:
        raise InvalidModel(f"tensor '{name}' has shape {list(shape)}, expected lengths of 0 or more")
    if not signature:
        return tuple(max(length, 0) for length in shape)
    return tuple(0 if -1 in pair else pair[0] for pair in zip(shape, signature, strict=True))


def _require_indexes(indexes: tuple[int, ...] | list[int], count: int, what: str) -> None:
    if indexes and not 0 <= min(indexes) <= max(indexes) < count:
        raise InvalidModel(f"{what} are tensors {list(indexes)}, the file has {count}")


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
