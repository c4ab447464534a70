"""Executions: their arguments, the ways to compute them, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Self, cast

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.fence import Fence
from nnhal.types import Operand
from nnhal.types.layout import Dimensions
from nnhal_native.ndk.compilation import Compilation
from nnhal_native.ndk.handle import Handle
from nnhal_native.ndk.library import (
    NeuralNetworksError,
    OutputInsufficientSizeError,
    ResultCode,
    asked,
    attempt,
    call,
    ffi,
    operand_type,
    refusal,
)
from nnhal_native.ndk.memory import Memory

Buffer = Array | bytes | bytearray | None
"""Contiguous memory, in which a value lies; None omits an optional operand."""
_UNKNOWN = 2**64 - 1


class DurationCode(IntEnum):
    """Kinds of times of an execution: the ANEURALNETWORKS_*DURATION_* codes."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


class Event(Handle):
    """ANeuralNetworksEvent: the end of an execution, or any sync fence."""

    def __init__(self, pointer: Any, kept: object = None) -> None:
        """``kept`` lives until the event is freed."""
        super().__init__("Event", pointer, kept)

    @classmethod
    def from_sync_fence(cls, fence: Fence) -> Self:
        """Return the event of a fence (ANeuralNetworksEvent_createFromSyncFenceFd)."""
        return cls(asked("Event_createFromSyncFenceFd", "ANeuralNetworksEvent*", fence.descriptor.fileno()))

    @property
    def sync_fence(self) -> Fence:
        """The fence that signals when it happens (ANeuralNetworksEvent_getSyncFenceFd).

        Raises BAD_DATA for the event of ``start_compute``, which has none.
        """
        return Fence(Descriptor(asked("Event_getSyncFenceFd", "int", self.pointer)))

    def wait(self) -> None:
        """Wait until it has happened. Raises NeuralNetworksError if what it stands for has failed."""
        call("Event_wait", self.pointer)


class Burst(Handle):
    """ANeuralNetworksBurst: for executions of one compilation that follow one another closely. One at a time."""

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE if the compilation is not finished."""
        super().__init__("Burst", asked("Burst_create", "ANeuralNetworksBurst*", compilation.pointer))


class Execution(Handle):
    """ANeuralNetworksExecution. Use as a context, or ``close`` it. Safe to use from several threads.

    Buffers are read when it is computed, and written once it is known to have succeeded: when ``compute`` returns, or
    when an application has waited for the event. Methods raise NeuralNetworksError, BAD_STATE if the state of the
    execution does not allow the call.
    """

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE if the compilation is not finished."""
        self._kept: dict[tuple[bool, int], object] = {}
        """The memory that its arguments point to."""
        pointer = asked("Execution_create", "ANeuralNetworksExecution*", compilation.pointer)
        super().__init__("Execution", pointer, self._kept)
        self._event: Event | None = None
        """The last one: the library waits when it is released, so it lives as long as the execution."""

    def set_reusable(self, reusable: bool) -> None:
        """Set whether it may be computed more than once; by default it may not."""
        call("Execution_setReusable", self.pointer, reusable)

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """Set whether buffers that are set later may be longer than what lies in them; by default they may not."""
        call("Execution_enableInputAndOutputPadding", self.pointer, enable)

    def set_measure_timing(self, measure: bool) -> None:
        """Set whether it is measured. Raises BAD_DATA unless exactly one device is named."""
        call("Execution_setMeasureTiming", self.pointer, measure)

    def set_timeout(self, duration_ns: int) -> None:
        """Set the time that it may take, 0 for any. Raises BAD_DATA unless exactly one device is named."""
        call("Execution_setTimeout", self.pointer, duration_ns)

    def set_loop_timeout(self, duration_ns: int) -> None:
        """Set the time that one activation of a WHILE may take, at most the HAL's maximum."""
        call("Execution_setLoopTimeout", self.pointer, duration_ns)

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Give the device a hint. Raises BAD_DATA as ``Compilation.add_extension_attribute``."""
        call("Execution_addExtensionAttribute", self.pointer, extension.encode(), code, data, len(data))

    def set_input(self, index: int, buffer: Buffer, type: Operand | None = None) -> None:  # noqa: A002
        """Set an input to the value in a buffer; None omits an optional input.

        ``type`` completes the dimensions that the model does not say. Raises BAD_DATA if it contradicts the model or
        says less, if a dimension stays unknown, and if the buffer has another size than they need.
        """
        self._set_buffer("setInput", index, buffer, type)

    def set_output(self, index: int, buffer: Buffer, type: Operand | None = None) -> None:  # noqa: A002
        """Set the buffer of an output. Raises as ``set_input``, but dimensions may stay unknown."""
        self._set_buffer("setOutput", index, buffer, type)

    def set_input_from_memory(
        self,
        index: int,
        memory: Memory,
        offset: int = 0,
        length: int = 0,
        type: Operand | None = None,  # noqa: A002
    ) -> None:
        """Set an input to the value in memory: ``length`` bytes from ``offset``, all of it if both are 0."""
        self._set("setInputFromMemory", index, type, memory.pointer, offset, length)

    def set_output_from_memory(
        self,
        index: int,
        memory: Memory,
        offset: int = 0,
        length: int = 0,
        type: Operand | None = None,  # noqa: A002
    ) -> None:
        """Set the memory of an output, as ``set_input_from_memory``."""
        self._set("setOutputFromMemory", index, type, memory.pointer, offset, length)

    def compute(self) -> None:
        """Compute it, and return when it has ended. Raises what the device's error maps to."""
        call("Execution_compute", self.pointer)

    def burst_compute(self, burst: Burst) -> None:
        """As ``compute``, in a burst. Raises BAD_DATA if it is of another compilation, BAD_STATE if it is busy."""
        call("Execution_burstCompute", self.pointer, burst.pointer)

    def start_compute(self) -> Event:
        """Compute it while the caller goes on; the event is its end, and raises what ``compute`` would."""
        self._event = Event(asked("Execution_startCompute", "ANeuralNetworksEvent*", self.pointer), dict(self._kept))
        return self._event

    def start_compute_with_dependencies(self, dependencies: Sequence[Event | None] = (), duration_ns: int = 0) -> Event:
        """Launch it: it begins when all dependencies have happened, and may take ``duration_ns`` from then on.

        Raises BAD_DATA for a duration unless exactly one device is named, UNEXPECTED_NULL for a dependency that is
        None, and what the device's error maps to if it refuses the launch.
        """
        awaited = ffi.new(
            "ANeuralNetworksEvent const*[]", [ffi.NULL if event is None else event.pointer for event in dependencies]
        )
        given = (awaited, len(dependencies), duration_ns)
        event = asked("Execution_startComputeWithDependencies", "ANeuralNetworksEvent*", self.pointer, *given)
        self._event = Event(event, (dict(self._kept), *dependencies))
        return self._event

    def output_operand_dimensions(self, index: int) -> Dimensions:
        """Return the dimensions of an output after it was computed.

        Raises BAD_STATE before, or if it failed; BAD_DATA for a scalar; OutputInsufficientSizeError if
        this output did not fit its buffer.
        """
        rank = ffi.new("uint32_t*")
        code = attempt("Execution_getOutputOperandRank", self.pointer, index, rank)
        if code not in (ResultCode.NO_ERROR, ResultCode.OUTPUT_INSUFFICIENT_SIZE):
            raise refusal(code)
        found = ffi.new("uint32_t[]", max(rank[0], 1))
        code = attempt("Execution_getOutputOperandDimensions", self.pointer, index, found)
        dimensions = tuple(found)[: rank[0]]
        if code == ResultCode.OUTPUT_INSUFFICIENT_SIZE:
            raise OutputInsufficientSizeError(refusal(code).message, dimensions)
        if code:
            raise refusal(code)
        return dimensions

    def output_operand_rank(self, index: int) -> int:
        """Return the rank of an output, 0 for a scalar. Raises as ``output_operand_dimensions``."""
        return int(asked("Execution_getOutputOperandRank", "uint32_t", self.pointer, index))

    def duration(self, code: DurationCode) -> int | None:
        """Return the nanoseconds that it took, None if the device does not say. The fenced times of an execution
        that was not launched with dependencies are the plain ones.

        Raises BAD_STATE if timing was not set, or if it has not succeeded.
        """
        found = asked("Execution_getDuration", "uint64_t", self.pointer, code)
        return None if found == _UNKNOWN else int(found)

    def _set_buffer(self, function: str, index: int, buffer: Buffer, operand: Operand | None) -> None:
        if buffer is None:
            self._set(function, index, operand, ffi.NULL, 0)
            return
        try:
            value = ffi.from_buffer(cast(Any, buffer), require_writable=cast(Any, function == "setOutput"))
        except (BufferError, ValueError) as error:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{function} {index}: {error}") from error
        self._set(function, index, operand, value, len(value))

    def _set(self, function: str, index: int, operand: Operand | None, value: Any, *place: int) -> None:
        call(f"Execution_{function}", self.pointer, index, operand_type(operand), value, *place)
        self._kept[function.startswith("setOutput"), index] = value
