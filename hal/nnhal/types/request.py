"""Requests to execute a prepared model, and their results. Instants and durations are nanoseconds, -1 is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nnhal.types.enums import ErrorStatus
from nnhal.types.memory import NOWHERE, DataLocation, Memory
from nnhal.types.model import ExtensionNameAndPrefix

NO_DEADLINE = -1
DEFAULT_LOOP_TIMEOUT_NS = 2_000_000_000
"""What one activation of WHILE may take where nothing else is said."""
MAX_LOOP_TIMEOUT_NS = 15_000_000_000
"""The most that may be asked for."""


@dataclass(frozen=True, slots=True)
class RequestArgument:
    """Where one input or output lies. ``dimensions`` refine the model's; empty takes the model's."""

    location: DataLocation = NOWHERE
    dimensions: tuple[int, ...] = ()
    has_no_value: bool = False


RequestMemoryPool = Memory | int
"""Shared memory, or the token of a device buffer."""


@dataclass(frozen=True, slots=True)
class Request:
    """One argument for each input and output of the model, and the pools that their locations refer to."""

    inputs: tuple[RequestArgument, ...]
    outputs: tuple[RequestArgument, ...]
    pools: tuple[RequestMemoryPool, ...]


@dataclass(frozen=True, slots=True)
class TokenValuePair:
    """A hint: token = prefix * 65536 + the hint's number in its extension."""

    token: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints, and the extensions that the prefixes of their tokens stand for."""

    values: tuple[TokenValuePair, ...] = ()
    extension_names: tuple[ExtensionNameAndPrefix, ...] = ()


NO_HINTS = Hints()


@dataclass(frozen=True, slots=True)
class ExecutionConfig:
    """What an execution may be given besides its request."""

    measure_timing: bool = False
    loop_timeout_duration_ns: int = -1
    execution_hints: tuple[TokenValuePair, ...] = ()
    extension_name_to_prefix: tuple[ExtensionNameAndPrefix, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputShape:
    """What is known of one output; ``is_sufficient`` is false where it did not fit its memory."""

    dimensions: tuple[int, ...]
    is_sufficient: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured; -1 where nothing was."""

    time_on_device_ns: int = -1
    time_in_driver_ns: int = -1


UNAVAILABLE_TIMING = Timing()


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """How an execution ended that did not fail."""

    output_sufficient_size: bool = True
    output_shapes: tuple[OutputShape, ...] = ()
    timing: Timing = UNAVAILABLE_TIMING


class Span(NamedTuple):
    """When a device worked on an execution, by CLOCK_BOOTTIME; -1 where it was not measured."""

    started_ns: int = -1
    ended_ns: int = -1


NO_SPAN = Span()


class Copy(NamedTuple):
    """Bytes that a device copied at one time, into it or, of outputs, out of it; instants of CLOCK_BOOTTIME."""

    is_output: bool
    bytes: int
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class FencedExecutionInfo:
    """How a fenced execution ended.

    ``timing_launched`` is from the call to the signal of its fence, ``timing_fenced`` from the moment when the last
    fence that it waited for had signalled. ``staged_bytes`` and ``staging_ns`` are what the device had to copy;
    ``span`` and ``copies`` say when it worked and copied, where the execution measures.
    """

    status: ErrorStatus
    timing_launched: Timing = UNAVAILABLE_TIMING
    timing_fenced: Timing = UNAVAILABLE_TIMING
    message: str = ""
    staged_bytes: int = 0
    staging_ns: int = 0
    span: Span = NO_SPAN
    copies: tuple[Copy, ...] = ()
