"""A TFLite graph, checked, in the terms of the file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from tflite import BuiltinOptions

from nnhal.arrays import Bytes
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.tflite.sparsity import TfliteSparsity

NO_OPTIONS = struct.pack("<HHi", 4, 4, 4)
"""A table without fields, so that all options have their defaults."""
_OFFSETS_BYTES = struct.Struct("<H")
"""What a table of options begins with here: the bytes of the offsets of its fields, before its own."""

CUSTOM = "CUSTOM "
"""What the name of a custom operator begins with here."""
BUILTIN = "BUILTIN "
"""What the name of an operator that is newer than the schema begins with; its number follows."""
SECOND_OPTIONS = 1 << 8
"""What is added to the number of a kind of options of the schema's second list, BuiltinOptions2."""


@dataclass(frozen=True, slots=True)
class OptionsVector:
    """A vector, or a string, among the options of an operator."""

    field: int
    """Its field of the table."""
    element_bytes: int
    """The bytes of an element; 0 for a string."""
    content: bytes


class OperatorOptions:
    """The options of an operator, with the names of the schema. Operators with the same options share one."""

    def __init__(self, kind: Any, table: bytes) -> None:
        """``kind`` is the class of the schema that reads such a table, which takes long for each look."""
        self._table = kind()
        self._table.Init(table, *_OFFSETS_BYTES.unpack_from(table))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)()
        setattr(self, name, value)
        return value


_options = lru_cache(maxsize=256)(OperatorOptions)


@dataclass(frozen=True, slots=True)
class TfliteQuantization:
    """Quantisation of integers: real = (q - zero_point) * scale, with one pair or one per index along ``axis``."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @property
    def per_channel(self) -> bool:
        """Return whether there is a scale for each index along the axis."""
        return len(self.scales) > 1


class TfliteTensor(NamedTuple):
    """A tensor of the file."""

    name: str
    code: int
    """A TensorType."""
    shape: tuple[int, ...]
    """0 for a dimension that may change; empty for a scalar, and if the file has no shape."""
    initial_shape: tuple[int, ...]
    """The shape with the initial lengths of dimensions that may change."""
    quantization: TfliteQuantization | None = None
    variable: bool = False
    sparsity: TfliteSparsity | None = None
    """How the elements of a sparse constant are stored."""
    data: Bytes | None = None
    """The bytes of a constant; None for other tensors."""
    has_rank: bool = False
    """True if an empty shape is that of a scalar for sure."""


class TfliteOperator(NamedTuple):
    """An operator of the file."""

    name: str
    """Type, index and first output, as in ``ADD_4:block/add``; after ``subgraph_1/`` unless it is in main."""
    op_type: str
    """Its name in the schema."""
    inputs: tuple[int | None, ...]
    """None for an input that is left out."""
    outputs: tuple[int, ...]
    options_type: int = BuiltinOptions.NONE
    """The kind of options; beyond SECOND_OPTIONS one of the schema's second list of kinds."""
    options: bytes = NO_OPTIONS
    """A copy of the table of options, which contains all of its scalars."""
    vectors: tuple[OptionsVector, ...] = ()
    """The vectors and strings among the options of the few operators that have some."""
    version: int = 1
    custom: bytes = b""
    """The options of a custom operator."""

    @property
    def vector(self) -> tuple[int, ...]:
        """The integers of the only vector among the options; empty if there is none."""
        return tuple(np.frombuffer(self.vectors[0].content, np.int32).tolist()) if self.vectors else ()

    @property
    def text(self) -> str:
        """The names among the options of VAR_HANDLE: those of the container, if it has one, and of the variable."""
        return "/".join(vector.content.decode(errors="replace") for vector in self.vectors if vector.content)

    def options_as(self, kind: Any) -> OperatorOptions:
        """Return the options, or defaults if there are none. ``kind`` is the class of the schema that reads them.

        Raises InvalidModel if they are of another kind.
        """
        if self.options_type not in (BuiltinOptions.NONE, getattr(BuiltinOptions, kind.__name__)):
            raise InvalidModel(
                f"operator '{self.name}' has options of type {self.options_type}, expected {kind.__name__}"
            )
        return _options(kind, self.options)

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        """Return the error to raise about this operator."""
        return UnsupportedNode(self.name, self.op_type, reason, supported)


@dataclass(frozen=True, slots=True)
class TfliteGraph:
    """A subgraph of the file: operators in an order in which they can be computed, and tensors by index."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
