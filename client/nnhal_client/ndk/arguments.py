"""What an application gives for one input or output of an execution, checked as the NDK checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal.types import Memory, Operand
from nnhal.types.layout import Dimensions, byte_size, describe, fully_specified, is_extension, is_scalar
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode

Buffer = Array | bytes | bytearray | memoryview
"""Memory of the application, contiguous."""


class UsableMemory(Protocol):
    """Memory of the NDK: ``host`` memory of which a part may be used, or, where there is none, the framework's own by
    its ``handle``, of which all is."""

    @property
    def host(self) -> Memory | None:
        """What a location refers to."""
        ...

    @property
    def handle(self) -> int:
        """The framework's number; 0 where it has none."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """Where one input or output lies: in a ``buffer`` of the application or ``length`` bytes of ``memory`` from
    ``offset``; nowhere where it is omitted. ``size`` are the bytes of its value, 0 where they are not known;
    ``dimensions`` are 0 where an axis is not.
    """

    dimensions: Dimensions
    size: int
    buffer: Bytes | None = None
    memory: UsableMemory | None = None
    offset: int = 0
    length: int = 0

    @property
    def is_omitted(self) -> bool:
        """Whether an optional input has no value."""
        return self.buffer is None and self.memory is None


def from_buffer(
    operand: Operand, given: Operand | None, buffer: Buffer | None, padded: bool, is_output: bool, place: str
) -> Argument:
    """An argument in a buffer. ``given`` is what the application says of the operand, None for nothing.

    Raises BAD_DATA where that contradicts the model or says less, where dimensions are not all known that have to be,
    or where the buffer has not as many bytes as they ask for; UNEXPECTED_NULL for an output without one.
    """
    if buffer is None:
        if is_output:
            raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, f"{place} without a buffer")
        return Argument(_dimensions(operand, given, True, place), 0)
    raw = _bytes_of(buffer, is_output, place)
    dimensions = _dimensions(operand, given, is_output, place)
    size = _size(operand, dimensions)
    _require_length(size, len(raw), padded, place)
    return Argument(dimensions, size, buffer=raw, length=size or len(raw))


def from_memory(
    operand: Operand,
    given: Operand | None,
    memory: UsableMemory,
    offset: int,
    length: int,
    padded: bool,
    is_output: bool,
    place: str,
) -> Argument:
    """An argument in memory; offset and length are 0 for all of it. Raises as ``from_buffer``."""
    if memory.host is None:
        if offset or length:
            _bad_data(f"{place} lies at {length} bytes from {offset} of memory that is used whole, expected 0 and 0")
        return Argument(_dimensions(operand, given, True, place), 0, memory=memory)
    dimensions = _dimensions(operand, given, is_output, place)
    size = _size(operand, dimensions)
    if offset < 0 or length < 0:
        _bad_data(f"{place} lies at {length} bytes from {offset}, expected 0 or more")
    if not (offset or length):
        length = _whole(memory.host, place)
    if length:
        _require_length(size, length, padded, place)
    return Argument(dimensions, size, memory=memory, offset=offset, length=length)


def _whole(memory: Memory, place: str) -> int:
    """The bytes of all of a memory, 0 for an image buffer, which has no other use."""
    try:
        return validate_pool(memory, place)
    except HalError as error:
        raise NeuralNetworksError.from_error(error) from error


def _dimensions(operand: Operand, given: Operand | None, may_be_open: bool, place: str) -> Dimensions:
    dimensions = operand.dimensions
    if given is not None:
        if given.type != operand.type:
            _bad_data(f"{place} is given as type {given.type}, the model says {operand.type}")
        dimensions = given.dimensions
        known = operand.dimensions
        fits = len(dimensions) == len(known) and all(b in (0, a) for a, b in zip(dimensions, known, strict=True))
        if min(dimensions, default=0) < 0 or (known and not fits) or (dimensions and is_scalar(operand.type)):
            _bad_data(f"{place} is given dimensions {describe(dimensions)}, the model says {describe(known)}")
    known_all = is_extension(operand.type) or fully_specified(operand.type, dimensions)
    if not (may_be_open or known_all):
        _bad_data(f"{place} has dimensions {describe(dimensions)}, expected all known")
    return dimensions


def _size(operand: Operand, dimensions: Dimensions) -> int:
    return 0 if is_extension(operand.type) else byte_size(operand.type, dimensions)


def _bytes_of(buffer: Buffer, is_output: bool, place: str) -> Bytes:
    array: Array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    if not array.flags.c_contiguous or (is_output and not array.flags.writeable):
        _bad_data(f"{place}: expected a buffer that is contiguous{' and can be written' if is_output else ''}")
    return array.reshape(-1).view(np.uint8)


def _require_length(size: int, length: int, padded: bool, place: str) -> None:
    if size and (length < size or (length > size and not padded)):
        _bad_data(f"{place} has {length} bytes, expected {size}{' or more' if padded else ''}")


def _bad_data(message: str) -> NoReturn:
    raise NeuralNetworksError(ResultCode.BAD_DATA, message)
