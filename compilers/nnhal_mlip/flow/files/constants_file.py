"""The constants file of a subgraph: its constants by name, with their values in base64, and how they are collected."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from math import prod
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    WithJsonSchema,
    model_validator,
)

from nnhal.arrays import Array
from nnhal.types.layout import describe
from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.extension import ConstantExtension, StrictPart, scales_of
from nnhal_mlip.flow.files.kernel_attributes import ConstantObject
from nnhal_mlip.flow.files.scalars import digits
from nnhal_mlip.flow.graph.flow_graph import FlowGraph

ConstantType = Literal["float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]
Extent = Annotated[int, Field(strict=True, ge=1)]


def _decoded(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return memoryview(base64.b64decode(given, validate=True))
    except binascii.Error as error:
        raise ValueError(f"data_base64 is no base64: {error}") from None


ConstantBytes = Annotated[
    memoryview,
    BeforeValidator(_decoded),
    PlainSerializer(lambda data: base64.b64encode(data).decode("ascii"), return_type=str, when_used="always"),
    WithJsonSchema({"type": "string", "title": "Data Base64"}),
]
"""Bytes in memory, base64 in the file: networks have a hundred million of them."""


class ConstantEntry(StrictPart):
    """A constant. ``min`` and ``max`` are of its values, with 17 significant digits."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    shape: tuple[Extent, ...]
    """Rank 1 and 3 are written with a leading 1."""
    dtype: ConstantType
    min: str
    max: str
    data: ConstantBytes = Field(alias="data_base64", repr=False)
    """Little-endian, row-major, in the layout that the nodes file gives."""
    nnhal: ConstantExtension | None = None

    @model_validator(mode="after")
    def _check(self) -> ConstantEntry:
        wanted, held = prod(self.shape) * np.dtype(self.dtype).itemsize, self.data.nbytes
        if held != wanted:
            raise ValueError(
                f"data_base64 holds {held} bytes, expected {wanted} for shape {list(self.shape)} of {self.dtype}"
            )
        extremes = _extremes(self.array())
        if not all(map(_same_number, (self.min, self.max), extremes)):
            raise ValueError(f"got min {self.min!r} and max {self.max!r}, expected {' and '.join(extremes)}")
        return self

    def array(self) -> Array:
        """Return the values, in the shape of the file."""
        data = np.frombuffer(self.data, np.dtype(self.dtype).newbyteorder("<"))
        return data.astype(self.dtype, copy=False).reshape(self.shape)


class ConstantsFile(RootModel[dict[str, ConstantEntry]]):
    """All constants of a subgraph, by their names in the nodes file."""

    model_config = ConfigDict(frozen=True)

    @property
    def entries(self) -> Mapping[str, ConstantEntry]:
        return self.root

    def array(self, name: str) -> Array:
        """Return the values of a constant, in the shape of the file."""
        return self.root[name].array()


def constants_schema() -> dict[str, Any]:
    return ConstantsFile.model_json_schema()


def constant_entry(array: Array, extension: ConstantExtension | None = None) -> ConstantEntry:
    """Return the entry of an array that is not empty, of any rank up to 4.

    Raises:
        ValueError: it has no element, or a type that files do not have.
    """
    if array.dtype.name not in get_args(ConstantType):
        raise ValueError(f"got values of {array.dtype.name}, expected one of {', '.join(get_args(ConstantType))}")
    shape = file_shape(array.shape)
    least, most = _extremes(array)
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return ConstantEntry.model_validate(
        {
            "shape": shape,
            "dtype": array.dtype.name,
            "min": least,
            "max": most,
            "data_base64": data.reshape(-1).view(np.uint8).data.toreadonly(),
            "nnhal": extension,
        }
    )


def file_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that the file writes: rank 1 and 3 get a leading 1, a scalar is [1, 1]."""
    if len(shape) in (1, 3):
        return (1, *shape)
    return tuple(shape) or (1, 1)


def _extremes(array: Array) -> tuple[str, str]:
    if not array.size:
        raise ValueError(f"got no values in shape {list(array.shape)}, expected at least one")
    return _written(array.min()), _written(array.max())


def _written(value: np.generic) -> str:
    return str(int(value)) if isinstance(value, np.integer) else digits(float(value))


def _same_number(text: str, expected: str) -> bool:
    try:
        return text == expected or float(text) == float(expected)
    except ValueError:
        return False


class ConstantPool:
    """The constants so far. One that several kernels read in the same shape is kept once, under its first name."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._names: dict[tuple[str, tuple[int, ...]], str] = {}
        self._entries: dict[str, ConstantEntry] = {}

    @property
    def file(self) -> ConstantsFile:
        return ConstantsFile(dict(self._entries))

    def add(self, place: str, value: str, shape: Sequence[int], name: str) -> ConstantObject:
        """Keep a constant of the graph, broadcast to a shape; return the object that stands for it.

        ``name`` is what it is called if it is new. Raises FlowFilesError, which begins with ``place``, if the value is
        no constant, has another shape, or a type that files do not have.
        """
        if value not in self._graph.constants:
            raise FlowFilesError(f"{place}: got operand '{value}', which is computed, expected a constant")
        array = self._graph.constants[value]
        wanted = file_shape(shape)
        key = value, wanted
        if key not in self._names:
            extension = ConstantExtension(value=value, **scales_of(place, self._graph.values[value], len(wanted)))
            try:
                entry = constant_entry(np.broadcast_to(_of_rank(array, len(wanted)), wanted), extension)
            except ValueError as error:
                got = f"constant '{value}' of {array.dtype} with shape {describe(array.shape)}"
                raise FlowFilesError(f"{place}: got {got}, expected shape {describe(wanted)}: {error}") from error
            self._names[key] = name
            self._entries[name] = entry
        name = self._names[key]
        entry = self._entries[name]
        return ConstantObject(name=name, shape=entry.shape, dtype=entry.dtype, min=entry.min, max=entry.max)


def _of_rank(array: Array, rank: int) -> Array:
    """Drop leading axes of length 1 until an array has at most a rank."""
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array
