"""The result codes of the NDK's NeuralNetworks API, with its numbers, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum
from errno import EMFILE, ENFILE, ENOMEM

from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions

UNKNOWN_DURATION = 2**64 - 1
"""A time that is unknown: all bits are ones."""


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

    @classmethod
    def from_status(cls, status: ErrorStatus) -> ResultCode:
        return _OF_STATUS[status]


_OF_STATUS = {
    ErrorStatus.NONE: ResultCode.NO_ERROR,
    ErrorStatus.DEVICE_UNAVAILABLE: ResultCode.UNAVAILABLE_DEVICE,
    ErrorStatus.GENERAL_FAILURE: ResultCode.OP_FAILED,
    ErrorStatus.OUTPUT_INSUFFICIENT_SIZE: ResultCode.OUTPUT_INSUFFICIENT_SIZE,
    ErrorStatus.INVALID_ARGUMENT: ResultCode.BAD_DATA,
    ErrorStatus.MISSED_DEADLINE_TRANSIENT: ResultCode.MISSED_DEADLINE_TRANSIENT,
    ErrorStatus.MISSED_DEADLINE_PERSISTENT: ResultCode.MISSED_DEADLINE_PERSISTENT,
    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT: ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
    ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT: ResultCode.RESOURCE_EXHAUSTED_PERSISTENT,
}
_EXHAUSTED = {EMFILE, ENFILE, ENOMEM}


class NeuralNetworksError(Exception):
    """A result code other than NO_ERROR, with a message that says what was got and what was expected."""

    def __init__(self, code: ResultCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    @classmethod
    def from_error(cls, error: NnhalError | OSError) -> NeuralNetworksError:
        """The error as an application sees it: by its status; DEAD_OBJECT if a process is gone, OUT_OF_MEMORY if this
        process has no more memory or descriptors, else OP_FAILED.
        """
        if isinstance(error, HalError):
            return cls(ResultCode.from_status(error.status), error.message)
        if isinstance(error, OSError):
            return cls(ResultCode.OUT_OF_MEMORY if error.errno in _EXHAUSTED else ResultCode.OP_FAILED, str(error))
        return cls(ResultCode.DEAD_OBJECT if isinstance(error, DeadObjectError) else ResultCode.OP_FAILED, str(error))


class OutputInsufficientSizeError(NeuralNetworksError):
    """OUTPUT_INSUFFICIENT_SIZE with the ``dimensions`` of the output; an unknown dimension is 0."""

    def __init__(self, message: str, dimensions: Dimensions) -> None:
        super().__init__(ResultCode.OUTPUT_INSUFFICIENT_SIZE, message)
        self.dimensions = dimensions


class NoDurationError(NeuralNetworksError):
    """BAD_STATE for a time that was not, or not yet, measured. ``duration_ns`` is what the NDK returns beside it."""

    duration_ns = UNKNOWN_DURATION

    def __init__(self, message: str) -> None:
        super().__init__(ResultCode.BAD_STATE, message)
