"""The library's functions, made from their declarations, and the errors that they end with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from cffi import FFI

from nnhal.types import Operand
from nnhal.types.layout import Dimensions
from nnhal_native import library_path

_HEADER = Path(__file__).parents[1] / "neural_networks.h"
_PREFIX = "ANeuralNetworks"

_DIMENSIONS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The arrays that operand types point to."""

ffi = FFI()
ffi.cdef(re.sub(r"^#.*$", "", _HEADER.read_text(), flags=re.MULTILINE))


class ResultCode(IntEnum):
    """End of a call: the ANEURALNETWORKS_* codes."""

    NO_ERROR = 0
    OUT_OF_MEMORY = 1
    INCOMPLETE = 2
    UNEXPECTED_NULL = 3
    BAD_DATA = 4
    OP_FAILED = 5
    BAD_STATE = 6
    UNMAPPABLE = 7
    OUTPUT_INSUFFICIENT_SIZE = 8
    UNAVAILABLE_DEVICE = 9
    MISSED_DEADLINE_TRANSIENT = 10
    MISSED_DEADLINE_PERSISTENT = 11
    RESOURCE_EXHAUSTED_TRANSIENT = 12
    RESOURCE_EXHAUSTED_PERSISTENT = 13
    DEAD_OBJECT = 14


class NeuralNetworksError(Exception):
    """A result code other than NO_ERROR, with the library's words on what was got and what was expected."""

    def __init__(self, code: ResultCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class OutputInsufficientSizeError(NeuralNetworksError):
    """OUTPUT_INSUFFICIENT_SIZE with the ``dimensions`` of the output; an unknown dimension is 0."""

    def __init__(self, message: str, dimensions: Dimensions) -> None:
        super().__init__(ResultCode.OUTPUT_INSUFFICIENT_SIZE, message)
        self.dimensions = dimensions


@cache
def library() -> Any:
    """Load libneuralnetworks.so. Raises FileNotFoundError if it was not built."""
    return ffi.dlopen(str(library_path("ndk")))


def attempt(function: str, *arguments: Any) -> ResultCode:
    """Call a function, named without ``ANeuralNetworks``. Raises BAD_DATA for a number that its type cannot hold."""
    with representable(function, *(given for given in arguments if isinstance(given, int))):
        return ResultCode(getattr(library(), _PREFIX + function)(*arguments))


def free(kind: str, pointer: Any) -> None:
    """Free an object, whose type's name without ``ANeuralNetworks`` is ``kind``."""
    getattr(library(), f"{_PREFIX}{kind}_free")(pointer)


@contextmanager
def representable(where: str, *given: float) -> Iterator[None]:
    """Raise BAD_DATA for a number that its type in C cannot hold, with those that are given."""
    try:
        yield
    except OverflowError as error:
        raise NeuralNetworksError(ResultCode.BAD_DATA, f"{where}: got {given}, and {error}") from error


def call(function: str, *arguments: Any) -> None:
    """Call a function. Raises NeuralNetworksError."""
    code = attempt(function, *arguments)
    if code:
        raise refusal(code)


def refusal(code: ResultCode) -> NeuralNetworksError:
    """Return the error for the code with which this thread's last call ended."""
    return NeuralNetworksError(code, text(library().ANeuralNetworksNnhal_getRefusal()) or code.name)


def text(characters: Any) -> str:
    """Return a string of C's."""
    found: Any = ffi.string(characters)
    return str(found, "utf-8")


def asked(function: str, kind: str, *arguments: Any) -> Any:
    """Call a function whose last parameter is the place of its result, a C type, and return that result."""
    place = ffi.new(f"{kind}*")
    call(function, *arguments, place)
    return place[0]


def numbers(values: Any) -> Any:
    """Return an array of uint32_t, NULL if it is empty."""
    with representable("an array of uint32_t", *values):
        return ffi.new("uint32_t[]", list(values)) if len(values) else ffi.NULL


def operand_type(operand: Operand | None, code: int | None = None) -> Any:
    """Return an operand's type, or one with another code; NULL if there is none."""
    if operand is None:
        return ffi.NULL
    dimensions = numbers(operand.dimensions)
    type_ = operand.type if code is None else code
    given = (type_, len(operand.dimensions), dimensions, operand.scale, operand.zero_point)
    with representable("an operand's type, scale and zero point", type_, operand.scale, operand.zero_point):
        made = ffi.new("ANeuralNetworksOperandType*", given)
    _DIMENSIONS[made] = dimensions
    return made
