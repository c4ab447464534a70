"""Writing small TFLite files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

from nnhal.arrays import Array

CODES: dict[np.dtype[Any], int] = {
    np.dtype(np.bool_): tflite.TensorType.BOOL,
    np.dtype(np.float16): tflite.TensorType.FLOAT16,
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.float64): tflite.TensorType.FLOAT64,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.int16): tflite.TensorType.INT16,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int64): tflite.TensorType.INT64,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.uint16): tflite.TensorType.UINT16,
    np.dtype(np.uint32): tflite.TensorType.UINT32,
    np.dtype(np.uint64): tflite.TensorType.UINT64,
    np.dtype(np.complex64): tflite.TensorType.COMPLEX64,
}


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a sparse tensor, dense of a size, or sparse with segments and indexes of one numpy type each."""

    size: int = 0
    """The number of indexes of a dense level."""
    segments: Array | None = None
    """Where segments begin and the last one ends; None for a dense level."""
    indexes: Array | None = None
    """The indexes that are present."""


@dataclass(frozen=True, slots=True)
class Sparsity:
    """Storage of the elements of a sparse constant."""

    order: Sequence[int]
    """The axis of each level."""
    block_map: Sequence[int]
    """The axes that are cut into blocks."""
    levels: Sequence[Level]
    """The outermost first."""


_INDEXES = {np.dtype(np.int32): "Int32Vector", np.dtype(np.uint16): "Uint16Vector", np.dtype(np.uint8): "Uint8Vector"}


@dataclass(frozen=True, slots=True)
class Spec:
    """The declaration of a tensor; ``scale`` is one number, or one for each index along ``axis``."""

    shape: Sequence[int]
    """The dimensions."""
    element_type: Any = np.float32
    """The numpy type of an element."""
    scale: float | Sequence[float] = ()
    """The scale or scales of a quantised tensor."""
    zero_point: int = 0
    """The zero point of a quantised tensor."""
    axis: int = 0
    """The quantised axis if there are several scales."""
    signature: Sequence[int] = ()
    """The shape signature, in which -1 is unknown."""
    code: int | None = None
    """The type's code in the schema, if the element type does not determine it."""
    sparsity: Sparsity | None = None
    """How the elements of a sparse constant are stored; its values are then those that are stored."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable tensor."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Signature:
    """An entry point: a subgraph by number, and the names of its inputs and outputs by tensor."""

    name: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int = 0


Options = tuple[str, Mapping[str, Any]]
"""A table of options: its name in the schema, and its fields."""


@dataclass(slots=True)
class TfliteFile:
    """A builder of a file. Methods return the indexes of the tensors that they add."""

    version: int = 3
    versions: Mapping[str, int] = field(default_factory=dict)
    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1024))
    _tensors: list[int] = field(default_factory=list)
    _buffers: list[bytes] = field(default_factory=lambda: [b""])
    _codes: list[str] = field(default_factory=list)
    _operators: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    _subgraphs: list[int] = field(default_factory=list)

    def input(self, name: str, spec: Spec) -> int:
        """Add an input of the model."""
        self.inputs.append(self._tensor(name, spec))
        return self.inputs[-1]

    def constant(self, values: Any, spec: Spec | None = None, name: str = "") -> int:
        """Add a constant, of the type and shape of its values unless a spec is given."""
        array = np.asarray(values)
        found = spec or Spec(array.shape, array.dtype)
        self._buffers.append(array.astype(found.element_type).tobytes())
        return self._tensor(name or f"constant_{len(self._tensors)}", found, len(self._buffers) - 1)

    def variable(self, name: str, spec: Spec) -> int:
        """Add a variable tensor."""
        return self._tensor(name, spec, variable=True)

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Mapping[str, Spec],
        options: Options | None = None,
        custom: bytes = b"",
    ) -> list[int]:
        """Add an operator and its outputs; ``custom`` are the options of a custom one."""
        if code not in self._codes:
            self._codes.append(code)
        results = [self._tensor(name, spec) for name, spec in outputs.items()]
        table = self._options(*options) if options else 0
        ins, outs = self._numbers(inputs), self._numbers(results)
        custom_options = self.builder.CreateByteVector(custom) if custom else 0
        tflite.OperatorStart(self.builder)
        tflite.OperatorAddOpcodeIndex(self.builder, self._codes.index(code))
        tflite.OperatorAddInputs(self.builder, ins)
        tflite.OperatorAddOutputs(self.builder, outs)
        if options:
            self._add_options(options[0], table)
        if custom:
            tflite.OperatorAddCustomOptions(self.builder, custom_options)
        self._operators.append(tflite.OperatorEnd(self.builder))
        return results

    def _add_options(self, kind: str, table: int) -> None:
        if hasattr(tflite.BuiltinOptions, kind):
            tflite.OperatorAddBuiltinOptionsType(self.builder, getattr(tflite.BuiltinOptions, kind))
            tflite.OperatorAddBuiltinOptions(self.builder, table)
        else:
            tflite.OperatorAddBuiltinOptions2Type(self.builder, getattr(tflite.BuiltinOptions2, kind))
            tflite.OperatorAddBuiltinOptions2(self.builder, table)

    def subgraph(self, *outputs: int) -> int:
        """End a subgraph, which has all that was added since the last one, and return its number for operators."""
        self._subgraphs.append(self._graph(outputs))
        self._tensors, self._operators, self.inputs = [], [], []
        return len(self._subgraphs)

    def build(self, *outputs: int) -> bytes:
        """Return the file; its main subgraph has all that was added since the last ``subgraph``."""
        b = self.builder
        subgraphs = self._vector([self._graph(outputs), *self._subgraphs])
        codes = self._vector([self._code(code) for code in self._codes])
        buffers = self._vector([self._buffer(content) for content in self._buffers])
        entries = self._vector([self._signature(signature) for signature in self.signatures])
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, self.version)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, subgraphs)
        tflite.ModelAddBuffers(b, buffers)
        if self.signatures:
            tflite.ModelAddSignatureDefs(b, entries)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def _signature(self, signature: Signature) -> int:
        b = self.builder
        inputs, outputs = (
            self._vector([self._tensor_map(name, tensor) for name, tensor in ends.items()])
            for ends in (signature.inputs, signature.outputs)
        )
        key = b.CreateString(signature.name)
        tflite.SignatureDefStart(b)
        tflite.SignatureDefAddInputs(b, inputs)
        tflite.SignatureDefAddOutputs(b, outputs)
        tflite.SignatureDefAddSignatureKey(b, key)
        tflite.SignatureDefAddSubgraphIndex(b, signature.subgraph)
        return int(tflite.SignatureDefEnd(b))

    def _tensor_map(self, name: str, tensor: int) -> int:
        text = self.builder.CreateString(name)
        tflite.TensorMapStart(self.builder)
        tflite.TensorMapAddName(self.builder, text)
        tflite.TensorMapAddTensorIndex(self.builder, tensor)
        return int(tflite.TensorMapEnd(self.builder))

    def _graph(self, outputs: Sequence[int]) -> int:
        b = self.builder
        tensors, operators = self._vector(self._tensors), self._vector(self._operators)
        ins, outs = self._numbers(self.inputs), self._numbers(outputs)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, ins)
        tflite.SubGraphAddOutputs(b, outs)
        tflite.SubGraphAddOperators(b, operators)
        return int(tflite.SubGraphEnd(b))

    def _tensor(self, name: str, spec: Spec, buffer: int = 0, variable: bool = False) -> int:
        b = self.builder
        text, shape, signature = b.CreateString(name), self._numbers(spec.shape), self._numbers(spec.signature)
        scales = np.atleast_1d(np.array(spec.scale, np.float32))
        quantization = self._quantization(scales, spec) if scales.size else 0
        sparsity = self._sparsity(spec.sparsity) if spec.sparsity else 0
        tflite.TensorStart(b)
        tflite.TensorAddName(b, text)
        tflite.TensorAddShape(b, shape)
        if spec.signature:
            tflite.TensorAddShapeSignature(b, signature)
        tflite.TensorAddType(b, CODES[np.dtype(spec.element_type)] if spec.code is None else spec.code)
        tflite.TensorAddBuffer(b, buffer)
        tflite.TensorAddIsVariable(b, variable)
        if not spec.shape:
            tflite.TensorAddHasRank(b, True)
        if quantization:
            tflite.TensorAddQuantization(b, quantization)
        if sparsity:
            tflite.TensorAddSparsity(b, sparsity)
        self._tensors.append(tflite.TensorEnd(b))
        return len(self._tensors) - 1

    def _quantization(self, scales: Array, spec: Spec) -> int:
        b = self.builder
        stored = b.CreateNumpyVector(scales)
        zero_points = b.CreateNumpyVector(np.full(scales.shape, spec.zero_point, np.int64))
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, stored)
        tflite.QuantizationParametersAddZeroPoint(b, zero_points)
        tflite.QuantizationParametersAddQuantizedDimension(b, spec.axis)
        return int(tflite.QuantizationParametersEnd(b))

    def _sparsity(self, sparsity: Sparsity) -> int:
        b = self.builder
        levels = self._vector([self._level(level) for level in sparsity.levels])
        order, block_map = self._numbers(sparsity.order), self._numbers(sparsity.block_map)
        tflite.SparsityParametersStart(b)
        tflite.SparsityParametersAddTraversalOrder(b, order)
        tflite.SparsityParametersAddBlockMap(b, block_map)
        tflite.SparsityParametersAddDimMetadata(b, levels)
        return int(tflite.SparsityParametersEnd(b))

    def _level(self, level: Level) -> int:
        b = self.builder
        stored = [self._index_vector(values) for values in (level.segments, level.indexes) if values is not None]
        tflite.DimensionMetadataStart(b)
        tflite.DimensionMetadataAddDenseSize(b, level.size)
        if stored:
            tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.SPARSE_CSR)
            tflite.DimensionMetadataAddArraySegmentsType(b, stored[0][0])
            tflite.DimensionMetadataAddArraySegments(b, stored[0][1])
            tflite.DimensionMetadataAddArrayIndicesType(b, stored[1][0])
            tflite.DimensionMetadataAddArrayIndices(b, stored[1][1])
        return int(tflite.DimensionMetadataEnd(b))

    def _index_vector(self, values: Array) -> tuple[int, int]:
        kind = _INDEXES[values.dtype]
        stored = self.builder.CreateNumpyVector(values)
        getattr(tflite, f"{kind}Start")(self.builder)
        getattr(tflite, f"{kind}AddValues")(self.builder, stored)
        return getattr(tflite.SparseIndexVector, kind), int(getattr(tflite, f"{kind}End")(self.builder))

    def _options(self, kind: str, fields: Mapping[str, Any]) -> int:
        stored = {name: self._stored(value) for name, value in fields.items()}
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in stored.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return int(getattr(tflite, f"{kind}End")(self.builder))

    def _stored(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return self._numbers(value)
        if isinstance(value, np.ndarray):
            return self.builder.CreateNumpyVector(value)
        return self.builder.CreateString(value) if isinstance(value, str) else value

    def _code(self, code: str) -> int:
        known = getattr(tflite.BuiltinOperator, code, tflite.BuiltinOperator.CUSTOM)
        custom = self.builder.CreateString(code)
        tflite.OperatorCodeStart(self.builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(self.builder, min(known, 127))
        tflite.OperatorCodeAddBuiltinCode(self.builder, known)
        tflite.OperatorCodeAddVersion(self.builder, self.versions.get(code, 1))
        if known == tflite.BuiltinOperator.CUSTOM:
            tflite.OperatorCodeAddCustomCode(self.builder, custom)
        return int(tflite.OperatorCodeEnd(self.builder))

    def _buffer(self, content: bytes) -> int:
        data = self.builder.CreateByteVector(content) if content else 0
        tflite.BufferStart(self.builder)
        if content:
            tflite.BufferAddData(self.builder, data)
        return int(tflite.BufferEnd(self.builder))

    def _numbers(self, numbers: Sequence[int]) -> int:
        return int(self.builder.CreateNumpyVector(np.array(numbers, np.int32)))

    def _vector(self, tables: Sequence[int]) -> int:
        self.builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.builder.PrependUOffsetTRelative(table)
        return int(self.builder.EndVector())


def floats(*shape: int) -> Spec:
    """Declare a tensor of float32."""
    return Spec(shape)


def int8(*shape: int, scale: Any = 0.05, zero_point: int = 3, axis: int = 0) -> Spec:
    """Declare a quantised tensor."""
    return Spec(shape, np.int8, scale, zero_point if np.ndim(scale) == 0 else 0, axis)


def uint8(*shape: int, scale: float = 0.05, zero_point: int = 130) -> Spec:
    """Declare a quantised tensor."""
    return Spec(shape, np.uint8, scale, zero_point)


def int32(*shape: int) -> Spec:
    """Declare a tensor of int32."""
    return Spec(shape, np.int32)


def booleans(*shape: int) -> Spec:
    """Declare a tensor of booleans."""
    return Spec(shape, np.bool_)
