"""The tables of a TFLite file, as its schema has them, up to the last field that is read."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_frontends.tflite.tables import Bool, Int8, Int32, Reference, UInt8, UInt32, UInt64


class ModelTable(NamedTuple):
    """First table of a file."""

    version: UInt32 = 0
    operator_codes: Reference = 0
    subgraphs: Reference = 0
    description: Reference = 0
    buffers: Reference = 0
    metadata_buffer: Reference = 0
    metadata: Reference = 0
    signature_defs: Reference = 0


class SubGraphTable(NamedTuple):
    tensors: Reference = 0
    inputs: Reference = 0
    outputs: Reference = 0
    operators: Reference = 0


class BufferTable(NamedTuple):
    """The bytes of a constant; in files of more than 2 GiB, where they lie behind the flatbuffer."""

    data: Reference = 0
    offset: UInt64 = 0
    size: UInt64 = 0


class OperatorCodeTable(NamedTuple):
    """Table of the operator's kind."""

    deprecated_builtin_code: Int8 = 0
    custom_code: Reference = 0
    version: Int32 = 1
    builtin_code: Int32 = 0


class TensorTable(NamedTuple):
    shape: Reference = 0
    type: Int8 = 0
    buffer: UInt32 = 0
    name: Reference = 0
    quantization: Reference = 0
    is_variable: Bool = False
    sparsity: Reference = 0
    shape_signature: Reference = 0
    has_rank: Bool = False


class QuantizationParametersTable(NamedTuple):
    """Table of the quantisation of a tensor."""

    min: Reference = 0
    max: Reference = 0
    scale: Reference = 0
    zero_point: Reference = 0
    details_type: UInt8 = 0
    details: Reference = 0
    quantized_dimension: Int32 = 0


class SparsityParametersTable(NamedTuple):
    """Table of the storage of a sparse constant's elements."""

    traversal_order: Reference = 0
    block_map: Reference = 0
    dim_metadata: Reference = 0


class DimensionMetadataTable(NamedTuple):
    """A level of a sparse constant."""

    format: Int8 = 0
    dense_size: Int32 = 0
    array_segments_type: UInt8 = 0
    array_segments: Reference = 0
    array_indices_type: UInt8 = 0
    array_indices: Reference = 0


class Int32VectorTable(NamedTuple):
    """Indexes of a level. Those of fewer bits have tables of their own, which are alike."""

    values: Reference = 0


class OperatorTable(NamedTuple):
    opcode_index: UInt32 = 0
    inputs: Reference = 0
    outputs: Reference = 0
    builtin_options_type: UInt8 = 0
    builtin_options: Reference = 0
    custom_options: Reference = 0
    custom_options_format: Int8 = 0
    mutating_variable_inputs: Reference = 0
    intermediates: Reference = 0
    large_custom_options_offset: UInt64 = 0
    large_custom_options_size: UInt64 = 0
    builtin_options_2_type: UInt8 = 0
    builtin_options_2: Reference = 0


class SignatureDefTable(NamedTuple):
    """An entry point."""

    inputs: Reference = 0
    outputs: Reference = 0
    signature_key: Reference = 0
    deprecated_tag: Reference = 0
    subgraph_index: UInt32 = 0


class TensorMapTable(NamedTuple):
    """An input or output of an entry point."""

    name: Reference = 0
    tensor_index: UInt32 = 0
