"""Requests to execute a prepared model, and their results. Instants and durations are nanoseconds; -1 means none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nnhal.types.enums import ErrorStatus
from nnhal.types.memory import NOWHERE, DataLocation, Memory
from nnhal.types.model import ExtensionNameAndPrefix

NO_DEADLINE = -1
DEFAULT_LOOP_TIMEOUT_NS = 2_000_000_000
"""The time that one activation of WHILE may take by default."""
MAX_LOOP_TIMEOUT_NS = 15_000_000_000
"""The longest loop timeout that a client may ask for."""


@dataclass(frozen=True, slots=True)
class RequestArgument:
    """Place of one input or output. ``dimensions`` refine the model's; if empty, the model's apply."""

    location: DataLocation = NOWHERE
    dimensions: tuple[int, ...] = ()
    has_no_value: bool = False
    varies: bool = False
    """True if it is an input in a device buffer, whose value tells the dimensions in each run that are open."""


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
    """Options of an execution besides its request."""

    measure_timing: bool = False
    loop_timeout_duration_ns: int = -1
    execution_hints: tuple[TokenValuePair, ...] = ()
    extension_name_to_prefix: tuple[ExtensionNameAndPrefix, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputShape:
    """Dimensions of one output, as far as they are known. ``is_sufficient`` is false if the output did not fit its
    memory.
    """

    dimensions: tuple[int, ...]
    is_sufficient: bool = True


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured times; -1 if not measured."""

    time_on_device_ns: int = -1
    time_in_driver_ns: int = -1


UNAVAILABLE_TIMING = Timing()


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The outcome of an execution that did not fail."""

    output_sufficient_size: bool = True
    output_shapes: tuple[OutputShape, ...] = ()
    timing: Timing = UNAVAILABLE_TIMING


class Span(NamedTuple):
    """Time that a device worked on an execution, by CLOCK_BOOTTIME; -1 if not measured."""

    started_ns: int = -1
    ended_ns: int = -1


NO_SPAN = Span()


class Copy(NamedTuple):
    """Bytes of inputs or outputs that a device copied in or out at one time. Instants are of CLOCK_BOOTTIME."""

    is_output: bool
    bytes: int
    started_ns: int
    ended_ns: int

    is_wire: bool = False
    """True if they went over a network, to or from a device on another host."""

    injected: str = ""
    """The name of a fault that was injected then, on purpose, and nothing was copied; empty for a copy."""


@dataclass(frozen=True, slots=True)
class FencedExecutionInfo:
    """End of a fenced execution."""

    status: ErrorStatus
    timing_launched: Timing = UNAVAILABLE_TIMING
    """Measured from the call until the execution's fence signals."""
    timing_fenced: Timing = UNAVAILABLE_TIMING
    """Measured from the instant when the last fence that it waited for signalled until its own fence signals."""
    message: str = ""
    """What was wrong; empty if nothing was."""
    staged_bytes: int = 0
    """Bytes that the device had to copy."""
    staging_ns: int = 0
    """The time that the copying took."""
    span: Span = NO_SPAN
    """When the device worked, if the execution measures."""
    copies: tuple[Copy, ...] = ()
    """When the device copied, if the execution measures."""


class RunUsage(NamedTuple):
    """Counts of direct runs: those that succeeded, those that failed, and the time that the former took."""

    runs: int = 0
    failed_runs: int = 0
    duration_ns: int = 0

    def plus(self, failed: int, duration_ns: int) -> RunUsage:
        """Add ``failed`` failed runs or, if that is 0, one successful run of ``duration_ns``."""
        if failed:
            return self._replace(failed_runs=self.failed_runs + failed)
        return RunUsage(self.runs + 1, self.failed_runs, self.duration_ns + duration_ns)
