"""The arguments that an application gives an execution, checked as the NDK checks them."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NoReturn, Protocol

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.errors import HalError
from nnhal.memory import validate_pool
from nnhal.types import Memory, Operand, Subgraph
from nnhal.types.layout import Dimensions, byte_size, describe, fully_specified, is_extension, is_scalar
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode

_log = logging.getLogger(__name__)
Buffer = Array | bytes | bytearray | memoryview
"""Memory of the application, contiguous."""


class UsableMemory(Protocol):
    """Memory of the NDK: memory of the host, which may be used in part, or the framework's, which is used whole."""

    @property
    def host(self) -> Memory | None:
        """The host's memory; None if it is the framework's."""
        ...

    @property
    def handle(self) -> int:
        """The framework's number of its memory; 0 for memory of the host."""
        ...

    @property
    def is_closed(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionArgument:
    """Where one input or output lies: in a buffer of the application, in memory, or nowhere if it is omitted."""

    dimensions: Dimensions
    """An unknown dimension is 0."""
    size: int
    """The bytes of its value; 0 if they are unknown."""
    buffer: Bytes | None = None
    memory: UsableMemory | None = None
    offset: int = 0
    """In memory, bytes."""
    length: int = 0
    """The length of the buffer or the part of the memory, bytes."""

    @property
    def is_omitted(self) -> bool:
        return self.buffer is None and self.memory is None

    @property
    def kind(self) -> Hashable:
        """All but the buffer itself."""
        return self.dimensions, self.size, self.buffer is None, id(self.memory), self.offset, self.length


def from_buffer(
    operand: Operand, given: Operand | None, buffer: Buffer | None, padded: bool, is_output: bool, place: str
) -> ExecutionArgument:
    """An argument in a buffer. ``given`` is the operand as the application describes it, if it does.

    Raises BAD_DATA if that contradicts the model or says less, if dimensions are unknown that have to be known, or if
    the buffer has another length than they need; UNEXPECTED_NULL for an output without a buffer.
    """
    if buffer is None:
        if is_output:
            raise NeuralNetworksError(ResultCode.UNEXPECTED_NULL, f"{place} without a buffer")
        return ExecutionArgument(_dimensions(operand, given, True, place), 0)
    raw = _bytes_of(buffer, is_output, place)
    dimensions = _dimensions(operand, given, is_output, place)
    size = _size(operand, dimensions)
    _require_length(size, len(raw), padded, place)
    return ExecutionArgument(dimensions, size, buffer=raw, length=size or len(raw))


def from_memory(
    operand: Operand,
    given: Operand | None,
    memory: UsableMemory,
    offset: int,
    length: int,
    padded: bool,
    is_output: bool,
    place: str,
) -> ExecutionArgument:
    """An argument in memory; with offset and length 0 it is the whole memory. Raises as ``from_buffer``."""
    if memory.host is None:
        if offset or length:
            _bad_data(f"{place} lies at {length} bytes from {offset} of memory that is used whole, expected 0 and 0")
        return ExecutionArgument(_dimensions(operand, given, True, place), 0, memory=memory)
    dimensions = _dimensions(operand, given, is_output, place)
    size = _size(operand, dimensions)
    if offset < 0 or length < 0:
        _bad_data(f"{place} lies at {length} bytes from {offset}, expected 0 or more")
    if not (offset or length):
        length = _whole(memory.host, place)
    if length:
        _require_length(size, length, padded, place)
    return ExecutionArgument(dimensions, size, memory=memory, offset=offset, length=length)


class ArgumentList:
    """The inputs, or the outputs, of an execution, as far as the application has given them."""

    def __init__(self, graph: Subgraph, is_output: bool) -> None:
        self._is_output = is_output
        self._what = "output" if is_output else "input"
        self._operands = [graph.operands[i] for i in (graph.output_indexes if is_output else graph.input_indexes)]
        self._arguments: dict[int, ExecutionArgument] = {}
        self.padded = False
        """Whether memory may be longer than what lies in it."""

    def operand(self, index: int) -> Operand:
        """The operand of an argument. Raises BAD_DATA if the model has none of that index."""
        if not 0 <= index < len(self._operands):
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{self._what} {index} of {len(self._operands)}")
        return self._operands[index]

    def set_buffer(self, index: int, buffer: Buffer | None, given: Operand | None) -> None:
        """Set an argument that lies in a buffer. Raises as ``from_buffer``."""
        operand, place = self.operand(index), f"{self._what} {index}"
        self._arguments[index] = from_buffer(operand, given, buffer, self.padded, self._is_output, place)

    def set_memory(self, index: int, memory: UsableMemory, offset: int, length: int, given: Operand | None) -> None:
        """Set an argument that lies in memory. Raises as ``from_memory``."""
        operand, place = self.operand(index), f"{self._what} {index}"
        self._arguments[index] = from_memory(
            operand, given, memory, offset, length, self.padded, self._is_output, place
        )

    @property
    def missing(self) -> list[str]:
        return [f"{self._what} {index}" for index in range(len(self._operands)) if index not in self._arguments]

    @property
    def all(self) -> Sequence[ExecutionArgument]:
        """All arguments. To be asked if none is missing."""
        return [self._arguments[index] for index in range(len(self._operands))]


def _whole(memory: Memory, place: str) -> int:
    """The bytes of a memory; 0 for an image buffer, which can only be used whole."""
    try:
        return validate_pool(memory, place)
    except HalError as error:
        raise NeuralNetworksError.from_error(error) from error


def _dimensions(operand: Operand, given: Operand | None, may_be_open: bool, place: str) -> Dimensions:
    dimensions = operand.dimensions
    if given is not None:
        # Android's runtime reads the dimensions alone, and some programs rely on that (PyTorch's avg_pool2d).
        if (given.type, given.scale, given.zero_point) != (operand.type, operand.scale, operand.zero_point):
            _tell_of_another_type(place)
        dimensions = given.dimensions
        known = operand.dimensions
        fits = len(dimensions) == len(known) and all(b in (0, a) for a, b in zip(dimensions, known, strict=True))
        if min(dimensions, default=0) < 0 or (known and not fits) or (dimensions and is_scalar(operand.type)):
            _bad_data(f"{place} is given dimensions {describe(dimensions)}, the model says {describe(known)}")
    known_all = is_extension(operand.type) or fully_specified(operand.type, dimensions)
    if not (may_be_open or known_all):
        _bad_data(f"{place} has dimensions {describe(dimensions)}, expected all known")
    return dimensions


@cache
def _tell_of_another_type(place: str) -> None:
    """Warn of an argument that is given as something else than the model says, once for each place."""
    _log.warning(
        "%s is given with another type or quantisation than the model's, of which, as on a phone, only the dimensions "
        "count",
        place,
    )


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
