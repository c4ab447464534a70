"""The interface that a driver implements. No gRPC, no sockets: the host has those.

A driver never sees an invalid model or request; the host has checked them. All methods may be called from several
threads at once, except that one BoundWorkload runs once at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from nnhal.arrays import Bytes
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.types import (
    DEFAULT_LOOP_TIMEOUT_NS,
    NO_DEADLINE,
    NO_SPAN,
    Capabilities,
    DeviceType,
    ErrorStatus,
    ExecutionPreference,
    Extension,
    NumberOfCacheFiles,
    Priority,
    Span,
)
from nnhal.types.layout import Dimensions
from nnhal_devices.backend import Backend, MemoryRules

BACKEND_API_VERSION = (1, 1)
"""Major and minor version of this interface, which backends in files of their own are checked against.

The minor version grows with what a backend made before it need not know: something new with a default. The major
version grows, and the minor starts at 0 again, with what such a backend would break on: a member that it must have,
one that is gone, another meaning.
"""


class Supported(NamedTuple):
    """The device can do an operation as given."""


class Unsupported(NamedTuple):
    """The device cannot do an operation, and why.

    ``code`` is stable: OP, DTYPE, RANK, SHAPE, KERNEL, STRIDE, ACTIVATION, QUANT, CONSTANT, DYN_SHAPE, NO_IMPL.
    """

    code: str
    got: str
    allowed: str
    hint: str = ""


Support = Supported | Unsupported
SUPPORTED = Supported()


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """How to prepare a model."""

    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE


@dataclass(slots=True)
class Control:
    """What bounds one run. ``check`` is called between operations and in loops."""

    deadline_ns: int = NO_DEADLINE
    loop_timeout_ns: int = DEFAULT_LOOP_TIMEOUT_NS

    def check(self) -> None:
        """Raise MISSED_DEADLINE_TRANSIENT once the deadline has passed."""
        if self.deadline_ns != NO_DEADLINE and time.clock_gettime_ns(time.CLOCK_BOOTTIME) > self.deadline_ns:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, "the deadline passed during the execution")


class Argument(NamedTuple):
    """One input or output of a run.

    ``data`` is the argument's memory as bytes, None where it is omitted; an output may be longer than what is written.
    ``dimensions`` are those of model and request combined: an output's may still be open.
    """

    data: Bytes | None
    dimensions: Dimensions


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found out.

    ``dimensions`` of each output; empty where they are just as bound. An output that is larger than its memory is not
    written. ``time_on_device_ns`` is modelled time, None where the clock around the run is the right answer. ``span``
    is when a run that was enqueued was done; NO_SPAN where that was between the call and what concluded it.
    """

    dimensions: tuple[Dimensions, ...] = ()
    time_on_device_ns: int | None = None
    span: Span = NO_SPAN


DONE = Outcome()


class BoundWorkload(Protocol):
    """A workload tied to memory, which must outlive it."""

    def run(self, control: Control) -> Outcome:
        """Read the inputs, compute, write the outputs. Raises HalError."""
        ...


class Pending(Protocol):
    """A run that was enqueued."""

    def result(self) -> Outcome:
        """What it found out; called once, after a sync. Raises HalError."""
        ...


@runtime_checkable
class AsynchronousWorkload(BoundWorkload, Protocol):
    """A workload of a device with a command queue. ``run`` enqueues and syncs."""

    def enqueue(self, control: Control) -> Pending:
        """Put a run into the queue. Its inputs are read and its outputs written at any time until the next sync."""
        ...


class Workload(Protocol):
    """A model that is ready to run."""

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """Tie it to memory. Raises HalError."""
        ...


class Driver(Protocol):
    """One accelerator."""

    name: str
    version: str
    type: DeviceType
    capabilities: Capabilities
    memory: MemoryRules
    modelled_timing: bool
    extensions: tuple[Extension, ...]
    number_of_cache_files: NumberOfCacheFiles
    backend: Backend

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        """One answer for each operation of main; fast, and independent of load."""
        ...

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Compile a model of which every operation is supported. Raises HalError."""
        ...


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """What a driver may be told when its process starts. ``threads`` for one execution."""

    threads: int = 1
    extra: dict[str, str] = field(default_factory=dict)
