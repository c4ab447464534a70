"""The inputs and outputs of a model, as the framework describes them, and the memory that they are bound to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

from nnhal.arrays import Array
from nnhal.errors import TransportError
from nnhal.extensions.onnx import element_type_named
from nnhal.tensors import Tensor, mismatch, stored_type
from nnhal.types import OperandType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe
from nnhal.v1 import framework_pb2 as wire


def tensor_from_wire(message: wire.TensorInfo) -> Tensor:
    """Decode a tensor. Raises TransportError for an element type that this client does not know."""
    element_type = element_type_named(message.element_type)
    if message.element_type and element_type is None:
        raise TransportError(f"tensor {message.name!r} has elements of type {message.element_type}, unknown here")
    return Tensor(
        message.name,
        OperandType(message.type) if message.type in ELEMENT_TYPES else message.type,
        tuple(message.dimensions),
        message.byte_size,
        message.scale,
        message.zero_point,
        element_type,
        stored_type(message.type, element_type),
        message.scalar,
        message.tensor if message.HasField("tensor") else None,
    )


class Shaped(Protocol):
    """A tensor with dimensions. Some of them may be unknown."""

    @property
    def name(self) -> str:
        """The model's name of it."""

    @property
    def dimensions(self) -> Dimensions:
        """0 for an axis of unknown size."""

    @property
    def is_open(self) -> bool:
        """Return whether some of its dimensions are unknown before a run."""


def input_dimensions(tensor: Shaped, given: Mapping[str, Dimensions]) -> Dimensions:
    """The dimensions of an input: the model's if all are known, else those given. Raises ValueError if none are."""
    if not tensor.is_open:
        return tensor.dimensions
    if tensor.name not in given:
        raise ValueError(
            f"input {tensor.name!r} has open dimensions, {describe(tensor.dimensions)}: expected all of them in "
            f"dimensions={{{tensor.name!r}: …}}"
        )
    return given[tensor.name]


Range = tuple[int, int | None]
"""The first length of an axis that grows, and the most that it may have; None if memory doubles as it is needed."""
ReservedDimensions = Sequence[int | Range]
"""Dimensions, of which some may be ranges."""


def first_of(dimensions: ReservedDimensions) -> Dimensions:
    return tuple(length if isinstance(length, int) else length[0] for length in dimensions)


def opened(dimensions: ReservedDimensions) -> Dimensions:
    """Dimensions in which those that are ranges are unknown."""
    return tuple(length if isinstance(length, int) else 0 for length in dimensions)


def growing_to_wire(dimensions: ReservedDimensions) -> list[wire.GrowingAxis]:
    """The axes that are ranges, with the most that they may have."""
    return [
        wire.GrowingAxis(axis=axis, most=length[1])
        for axis, length in enumerate(dimensions)
        if not isinstance(length, int)
    ]


def most_of(dimensions: ReservedDimensions) -> Sequence[float]:
    limits = [length if isinstance(length, int) else length[1] for length in dimensions]
    return [inf if limit is None else limit for limit in limits]


def room_for(dimensions: ReservedDimensions, needed: Dimensions = ()) -> Dimensions:
    """The largest dimensions that memory is made for: of axes without a maximum, twice what is ``needed`` or comes
    first. Raises ValueError if a range is none.
    """
    found = []
    for length, least in zip(dimensions, needed or first_of(dimensions), strict=True):
        if isinstance(length, int):
            found.append(max(1, length))
            continue
        first, most = length
        if first < 0 or (most is not None and most < max(1, first)):
            raise ValueError(f"got the range {length} of a length, expected a first length of 0 or more, and a maximum")
        found.append(2 * max(1, least) if most is None else most)
    return tuple(found)


def require_known(given: Mapping[str, ReservedDimensions], inputs: Sequence[Shaped], outputs: Sequence[Shaped]) -> None:
    """Raise ValueError if dimensions are given for what is neither an input nor an output."""
    names = [[tensor.name for tensor in tensors] for tensors in (inputs, outputs)]
    unknown = sorted(given.keys() - {*names[0], *names[1]})
    if unknown:
        raise ValueError(f"got dimensions of {unknown}, expected some of inputs {names[0]} and outputs {names[1]}")


def fill(views: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    """Copy arrays into the memory of inputs. Raises ValueError if names, element types or dimensions differ."""
    if inputs.keys() != views.keys():
        raise ValueError(f"got inputs {sorted(inputs)}, expected {sorted(views)}")
    for name, view in views.items():
        given = inputs[name]
        if given.dtype != view.dtype or given.shape != view.shape:
            raise ValueError(mismatch(name, given, view.dtype, str(list(view.shape))))
        view[...] = given
