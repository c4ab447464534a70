"""Write a TFLite file with some operators of another one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from tflite import BuiltinOperator, BuiltinOptions

from nnhal.arrays import Bytes
from nnhal.types.layout import Dimensions
from nnhal_frontends.tflite.graph import (
    BUILTIN,
    CUSTOM,
    SECOND_OPTIONS,
    OptionsVector,
    TfliteOperator,
    TfliteQuantization,
    TfliteTensor,
)
from nnhal_frontends.tflite.options import field_places, subgraphs_of
from nnhal_frontends.tflite_identifier import IDENTIFIER

_ALIGNMENT = 16
"""Bytes to which the runtime aligns constants."""
_LAST_OF_OLD_FILES = 127
"""The largest number of an operator in the field that old readers look at."""


@dataclass(frozen=True, slots=True)
class WrittenSubgraph:
    """A subgraph to write: some operators of a graph, and what they read and write by the indexes of that graph."""

    tensors: Sequence[TfliteTensor]
    operators: Sequence[TfliteOperator]
    inputs: Sequence[int]
    outputs: Sequence[int]
    stored: Callable[[int], tuple[Bytes, Dimensions] | None]
    """Gives the bytes and the shape of a constant, None for other tensors."""


def write_model(subgraphs: Sequence[WrittenSubgraph], numbers: dict[int, int]) -> bytes:
    """Return a file of these subgraphs; the first is the main one.

    ``numbers`` has the new number of each subgraph of the old file that an operator refers to.
    """
    return _Writer(numbers).model(subgraphs)


@dataclass(slots=True)
class _Writer:
    numbers: dict[int, int]
    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1024))
    _codes: dict[tuple[str, int], int] = field(default_factory=dict)
    _buffers: list[int] = field(default_factory=list)

    def model(self, subgraphs: Sequence[WrittenSubgraph]) -> bytes:
        b = self.builder
        self._buffer(b"")  # the first buffer is that of tensors without values
        graphs = self._vector([self._subgraph(subgraph) for subgraph in subgraphs])
        codes = self._vector([self._code(name, version) for name, version in self._codes])
        buffers = self._vector(self._buffers)
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, graphs)
        tflite.ModelAddBuffers(b, buffers)
        b.Finish(tflite.ModelEnd(b), IDENTIFIER)
        return bytes(b.Output())

    def _subgraph(self, graph: WrittenSubgraph) -> int:
        used = dict.fromkeys(graph.inputs)
        used |= dict.fromkeys(i for o in graph.operators for i in (*o.inputs, *o.outputs) if i is not None)
        used |= dict.fromkeys(graph.outputs)
        places = {index: place for place, index in enumerate(used)}
        written = {index for operator in graph.operators for index in operator.outputs}.union(graph.inputs)
        tensors = self._vector(
            [self._tensor(graph.tensors[i], None if i in written else graph.stored(i)) for i in used]
        )
        operators = self._vector([self._operator(operator, places) for operator in graph.operators])
        inputs, outputs = (self._numbers(places[i] for i in ends) for ends in (graph.inputs, graph.outputs))
        b = self.builder
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, inputs)
        tflite.SubGraphAddOutputs(b, outputs)
        tflite.SubGraphAddOperators(b, operators)
        return int(tflite.SubGraphEnd(b))

    def _tensor(self, tensor: TfliteTensor, constant: tuple[Bytes, Dimensions] | None) -> int:
        b = self.builder
        content, shape = (None, tensor.initial_shape) if constant is None else constant
        buffer = 0 if content is None else self._buffer(content.tobytes())
        changing = content is None and tensor.shape != tensor.initial_shape
        quantization = self._quantization(tensor.quantization) if tensor.quantization else 0
        name, stored = b.CreateString(tensor.name), self._numbers(shape)
        signature = self._numbers(length or -1 for length in tensor.shape) if changing else 0
        tflite.TensorStart(b)
        tflite.TensorAddName(b, name)
        tflite.TensorAddShape(b, stored)
        tflite.TensorAddType(b, tensor.code)
        tflite.TensorAddBuffer(b, buffer)
        if changing:
            tflite.TensorAddShapeSignature(b, signature)
        if quantization:
            tflite.TensorAddQuantization(b, quantization)
        return int(tflite.TensorEnd(b))

    def _quantization(self, quantization: TfliteQuantization) -> int:
        b = self.builder
        scales = b.CreateNumpyVector(np.array(quantization.scales, np.float32))
        zero_points = b.CreateNumpyVector(np.array(quantization.zero_points, np.int64))
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, scales)
        tflite.QuantizationParametersAddZeroPoint(b, zero_points)
        tflite.QuantizationParametersAddQuantizedDimension(b, quantization.axis)
        return int(tflite.QuantizationParametersEnd(b))

    def _operator(self, operator: TfliteOperator, places: dict[int, int]) -> int:
        b = self.builder
        code = self._codes.setdefault((operator.op_type, operator.version), len(self._codes))
        inputs = self._numbers(-1 if i is None else places[i] for i in operator.inputs)
        outputs = self._numbers(places[i] for i in operator.outputs)
        custom = b.CreateByteVector(operator.custom) if operator.custom else 0
        options = self._options(operator) if operator.options_type != BuiltinOptions.NONE else 0
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, code)
        tflite.OperatorAddInputs(b, inputs)
        tflite.OperatorAddOutputs(b, outputs)
        if custom:
            tflite.OperatorAddCustomOptions(b, custom)
        if options and operator.options_type < SECOND_OPTIONS:
            tflite.OperatorAddBuiltinOptionsType(b, operator.options_type)
            tflite.OperatorAddBuiltinOptions(b, options)
        elif options:
            tflite.OperatorAddBuiltinOptions2Type(b, operator.options_type - SECOND_OPTIONS)
            tflite.OperatorAddBuiltinOptions2(b, options)
        return int(tflite.OperatorEnd(b))

    def _options(self, operator: TfliteOperator) -> int:
        """Copy a table of options: its scalars as they are, with its vectors and numbers of subgraphs replaced.

        The copy in ``operator`` is the offsets of the fields, to be aligned to 8 bytes, and then the table itself, with
        the distance to them at its beginning.
        """
        b = self.builder
        vectors = {vector.field: self._options_vector(vector) for vector in operator.vectors}
        length, size = struct.unpack_from("<HH", operator.options)
        fields = field_places(operator.options)
        table = bytearray(operator.options[length : length + size])
        for place, number in subgraphs_of(operator).items():
            struct.pack_into("<i", table, place, self.numbers[number])
        b.Prep(8, length + len(table))
        start = b.Offset() + len(table)  # counted from the end of the file, as the library does
        for number, vector in vectors.items():
            struct.pack_into("<I", table, fields[number], start - fields[number] - vector)
        self._place(bytes(table))
        self._place(operator.options[:length])
        return int(start)

    def _options_vector(self, vector: OptionsVector) -> int:
        if vector.element_bytes == 0:
            return int(self.builder.CreateString(vector.content))
        return self._aligned(vector.content, vector.element_bytes)

    def _aligned(self, content: bytes, element_bytes: int, alignment: int = 1) -> int:
        b = self.builder
        b.StartVector(element_bytes, len(content) // element_bytes, max(alignment, element_bytes))
        self._place(content)
        return int(b.EndVector())

    def _place(self, content: bytes) -> None:
        """Write bytes before what has been written, for which there is room."""
        self.builder.Pad(len(content))
        head = self.builder.Head()
        self.builder.Bytes[head : head + len(content)] = content

    def _code(self, name: str, version: int) -> int:
        b = self.builder
        custom = name.removeprefix(CUSTOM) if name.startswith(CUSTOM) else ""
        number = getattr(BuiltinOperator, name, BuiltinOperator.CUSTOM)
        if name.startswith(BUILTIN):
            number = int(name.removeprefix(BUILTIN))
        text = b.CreateString(custom)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, _LAST_OF_OLD_FILES))
        tflite.OperatorCodeAddBuiltinCode(b, number)
        tflite.OperatorCodeAddVersion(b, version)
        if custom:
            tflite.OperatorCodeAddCustomCode(b, text)
        return int(tflite.OperatorCodeEnd(b))

    def _buffer(self, content: bytes) -> int:
        """Add a buffer, and return its number."""
        b = self.builder
        data = self._aligned(content, 1, _ALIGNMENT) if content else 0
        tflite.BufferStart(b)
        if content:
            tflite.BufferAddData(b, data)
        self._buffers.append(tflite.BufferEnd(b))
        return len(self._buffers) - 1

    def _numbers(self, numbers: Iterable[int]) -> int:
        return int(self.builder.CreateNumpyVector(np.array(list(numbers), np.int32)))

    def _vector(self, tables: Sequence[int]) -> int:
        self.builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.builder.PrependUOffsetTRelative(table)
        return int(self.builder.EndVector())
