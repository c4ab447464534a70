"""The library's functions, made from their declarations, and the errors that they end with."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

from cffi import FFI

from nnhal.types import Operand
from nnhal.types.layout import Dimensions
from nnhal_native import library_path

_HEADER = Path(__file__).parents[1] / "neural_networks.h"
_PREFIX = "ANeuralNetworks"

_DIMENSIONS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What operand types point to."""

ffi = FFI()
ffi.cdef(re.sub(r"^#.*$", "", _HEADER.read_text(), flags=re.MULTILINE))


class ResultCode(IntEnum):
    """How a call ended: the ANEURALNETWORKS_* codes."""

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
    """Call a function, named without ``ANeuralNetworks``."""
    return ResultCode(getattr(library(), _PREFIX + function)(*arguments))


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
    return ffi.new("uint32_t[]", list(values)) if len(values) else ffi.NULL


def operand_type(operand: Operand | None, code: int | None = None) -> Any:
    """Return an operand's type, or one with another code; NULL if there is none."""
    if operand is None:
        return ffi.NULL
    dimensions = numbers(operand.dimensions)
    made = ffi.new(
        "ANeuralNetworksOperandType*",
        (
            operand.type if code is None else code,
            len(operand.dimensions),
            dimensions,
            operand.scale,
            operand.zero_point,
        ),
    )
    _DIMENSIONS[made] = dimensions
    return made


class Handle:
    """An object of the library. Use as a context, or ``close`` it."""

    def __init__(self, kind: str, pointer: Any) -> None:
        """``kind`` is its type's name without ``ANeuralNetworks``."""
        self.pointer = ffi.gc(pointer, getattr(library(), f"{_PREFIX}{kind}_free"))
        """What functions take. They refuse it with UNEXPECTED_NULL when it is closed."""

    def close(self) -> None:
        """Release it. Harmless when repeated."""
        ffi.release(self.pointer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
