"""The numbers of fields in the tables of a TFLite file, as its schema has them."""

from __future__ import annotations


class ModelField:
    """Fields of Model."""

    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    BUFFERS = 4


class SubgraphField:
    """Fields of SubGraph."""

    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3


class BufferField:
    """Fields of Buffer."""

    DATA = 0
    OFFSET = 1
    SIZE = 2


class CodeField:
    """Fields of OperatorCode."""

    DEPRECATED_BUILTIN_CODE = 0
    CUSTOM_CODE = 1
    VERSION = 2
    BUILTIN_CODE = 3


class TensorField:
    """Fields of Tensor."""

    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    QUANTIZATION = 4
    IS_VARIABLE = 5
    SPARSITY = 6
    SHAPE_SIGNATURE = 7


class QuantizationField:
    """Fields of QuantizationParameters."""

    SCALE = 2
    ZERO_POINT = 3
    QUANTIZED_DIMENSION = 6


class OperatorField:
    """Fields of Operator."""

    OPCODE_INDEX = 0
    INPUTS = 1
    OUTPUTS = 2
    BUILTIN_OPTIONS_TYPE = 3
    BUILTIN_OPTIONS = 4
    CUSTOM_OPTIONS = 5
    BUILTIN_OPTIONS_2_TYPE = 11
    BUILTIN_OPTIONS_2 = 12
