"""A TFLite graph as it stands in the file, checked, with the file's own terms."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tflite import BuiltinOptions

from nnhal.arrays import Bytes
from nnhal_service.frontends.errors import InvalidModel, UnsupportedNode

NO_OPTIONS = struct.pack("<HHi", 4, 4, 4)
"""A table without fields: all of them have their defaults."""


class OptionsTable(Protocol):
    """A class of the schema that reads one kind of options."""

    def Init(self, buf: bytes, pos: int) -> None:  # noqa: N802 - as the schema compiler names it
        """Read from a table."""


OptionsKind = TypeVar("OptionsKind", bound=OptionsTable)


@dataclass(frozen=True, slots=True)
class TfliteQuantization:
    """What integers stand for: real = (q - zero_point) * scale, with one pair, or one for each index along ``axis``."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @property
    def per_channel(self) -> bool:
        """Whether there is a scale for each index along the axis."""
        return len(self.scales) > 1


@dataclass(frozen=True, slots=True)
class TfliteTensor:
    """A tensor. ``code`` is a TensorType.

    ``shape`` has 0 for an axis whose length may change; in ``initial_shape`` it has the length that it starts with. The
    shape of a scalar is empty, and so is one that the file leaves out. ``data`` is what a constant holds, as bytes.
    """

    name: str
    code: int
    shape: tuple[int, ...]
    initial_shape: tuple[int, ...]
    quantization: TfliteQuantization | None = None
    variable: bool = False
    sparse: bool = False
    data: Bytes | None = None


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """An operator. ``op_type`` is its name in the schema, ``inputs`` has None for one that is left out.

    ``name`` is how messages and ImportedModel call it: type, index and first output, as in ``ADD_4:block/add``, after
    ``subgraph_1/`` where it is not in main.
    ``options`` is a table of its own whose scalars all lie inside, ``options_type`` a BuiltinOptions; ``vector`` is the
    vector among the options of those few operators that have one.
    """

    name: str
    op_type: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options_type: int = BuiltinOptions.NONE
    options: bytes = NO_OPTIONS
    vector: tuple[int, ...] = ()

    def options_as(self, kind: type[OptionsKind]) -> OptionsKind:
        """The options, with defaults where the operator has none. Raises InvalidModel where they are another kind's."""
        if self.options_type not in (BuiltinOptions.NONE, getattr(BuiltinOptions, kind.__name__)):
            raise InvalidModel(
                f"operator '{self.name}' has options of type {self.options_type}, expected {kind.__name__}"
            )
        table = kind()
        (start,) = struct.unpack_from("<H", self.options)
        table.Init(self.options, start)
        return table

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        """The error to raise about this operator."""
        return UnsupportedNode(self.name, self.op_type, reason, supported)


@dataclass(frozen=True, slots=True)
class TfliteGraph:
    """A subgraph: operators in an order in which they can be computed, over tensors by index."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
