"""The interface that a driver implements. It has no gRPC and no sockets: those are the host's.

A driver never sees an invalid model or request, since the host has checked them. All methods may be called from several
threads at once, except that one BoundWorkload runs once at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED as SUPPORTED
from nnhal.support import Support as Support
from nnhal.support import Supported as Supported
from nnhal.support import Unsupported as Unsupported
from nnhal.types import (
    DEFAULT_LOOP_TIMEOUT_NS,
    NO_DEADLINE,
    NO_SPAN,
    Capabilities,
    Copy,
    DeviceType,
    ErrorStatus,
    ExecutionPreference,
    Extension,
    NumberOfCacheFiles,
    Priority,
    Span,
)
from nnhal.types.layout import Dimensions
from nnhal_devices.backend import Backend, MemoryRules, OptimizationViews
from nnhal_devices.figures import OperationTimes, WorkloadFigures

BACKEND_API_VERSION = (1, 11)
"""Major and minor version of this interface, which dynamic backends are checked against.

The minor version grows with a change that existing backends need not know: a new member with a default. The major
version grows, and the minor starts at 0 again, with a change that breaks them: a new member without a default, a
removed member, another meaning.
"""


CANCELLED = "cancelled by an operator"
"""Why an execution has failed that was cancelled."""


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """Options of preparing a model."""

    preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER
    priority: Priority = Priority.MEDIUM
    deadline_ns: int = NO_DEADLINE

    artifact: bytes = b""
    """What the workload of the same model gave to be cached, if the model comes from a cache: see CompiledWorkload."""

    is_cached: bool = False
    """True if the host will ask the workload for an artifact, to write it to a cache."""

    def check(self) -> None:
        """Raise MISSED_DEADLINE_TRANSIENT if the deadline has passed. Drivers call it between parts of the work."""
        if _has_passed(self.deadline_ns):
            message = "the deadline passed while the network was compiled"
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, message)


@dataclass(slots=True)
class Control:
    """The limits of one run. Drivers call ``check`` between operations and in loops.

    A driver that hands its work to something that cannot call ``check``, such as a library, sets ``stop`` meanwhile:
    first it sets ``stop``, then it calls ``check``, then it works, and at last it sets ``stop`` to None. If
    ``interrupted`` is True after that, the host may still be about to call what was set: that must not harm later runs.
    """

    deadline_ns: int = NO_DEADLINE
    loop_timeout_ns: int = DEFAULT_LOOP_TIMEOUT_NS

    cancelled: bool = False
    """True if the run is to end before its deadline; ``reason`` says why."""

    reason: str = CANCELLED
    """Why the run was cancelled, if it was."""

    stop: Callable[[], object] | None = None
    """Has the work end soon, and returns at once. The host calls it in another thread, and perhaps more than once."""

    interrupted: bool = False
    """True if the host has called ``stop``, or would have."""

    def check(self) -> None:
        """Raise MISSED_DEADLINE_TRANSIENT if the deadline has passed, GENERAL_FAILURE if the run was cancelled."""
        if self.cancelled:
            general_failure(self.reason)
        if self.deadline_ns != NO_DEADLINE and self.has_expired:
            raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, "the deadline passed during the execution")

    def cancel(self, reason: str) -> None:
        """Have the run end. For the host."""
        self.reason = reason
        self.cancelled = True

    @property
    def has_expired(self) -> bool:
        """Return whether the deadline has passed."""
        return _has_passed(self.deadline_ns)

    def interrupt(self) -> None:
        """Stop the work. For the host, once the run was cancelled or its deadline has passed."""
        self.interrupted = True  # before ``stop`` is read: a driver that drops it looks at this afterwards
        stop = self.stop
        if stop is not None:
            stop()


class Argument(NamedTuple):
    """One input or output of a run.

    ``data`` is the argument's memory as bytes, None if it is omitted; an output's may be longer than what is written.
    ``dimensions`` are those of model and request combined: some of an output may still be unknown.
    """

    data: Bytes | None
    dimensions: Dimensions


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. An output that is larger than its memory is not written."""

    dimensions: tuple[Dimensions, ...] = ()
    """The dimensions of each output; empty if they are as bound."""

    time_on_device_ns: int | None = None
    """Modelled time; None if the time measured around the run, without ``copies``, is right."""

    span: Span = NO_SPAN
    """When an enqueued run took place; NO_SPAN if that was between the call and its conclusion."""

    copies: tuple[Copy, ...] = ()
    """What the driver itself has copied for the run, one after the other, such as over a network: counted as staged."""


DONE = Outcome()


class BoundWorkload(Protocol):
    """A workload bound to memory, which must outlive it."""

    def run(self, control: Control) -> Outcome:
        """Read the inputs, compute, write the outputs. Raises HalError."""
        ...


@runtime_checkable
class ResizableWorkload(BoundWorkload, Protocol):
    """A bound workload that can run for other dimensions without another bind."""

    def resize(self, inputs: Sequence[Dimensions]) -> None:
        """Set the dimensions of all inputs for the next runs; a 0 is an empty axis. Each input begins where it did,
        and its memory is large enough. Raises HalError.
        """
        ...


class Pending(Protocol):
    """A run that was enqueued."""

    def result(self) -> Outcome:
        """Return its outcome. Called once, after a sync. Raises HalError."""
        ...


@runtime_checkable
class AsynchronousWorkload(BoundWorkload, Protocol):
    """A workload of a device with a command queue. ``run`` enqueues and syncs."""

    def enqueue(self, control: Control) -> Pending:
        """Enqueue a run. Its inputs are read and its outputs written at any time until the next sync."""
        ...


class Workload(Protocol):
    """A prepared model of a driver."""

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """Bind it to memory. Raises HalError."""
        ...


@runtime_checkable
class CompiledWorkload(Workload, Protocol):
    """A workload that a compilation cache keeps beside its model, so that the model need not be compiled again."""

    def artifact(self) -> bytes | Sequence[memoryview] | None:
        """Return the outcome of compiling, for ``PrepareOptions.artifact`` of a later preparation of the model.

        It may be in several pieces, which are not copied. If it is empty, the model alone is cached. If it is None,
        nothing is cached: the model is compiled as fast as it would be restored.

        The later preparation may be by a driver of the same version with other options: the driver uses the artifact
        only if it fits both model and options, and compiles the model otherwise.
        """
        ...


@runtime_checkable
class ShownWorkload(Workload, Protocol):
    """A workload whose memory or time an operator may look at."""

    def figures(self) -> WorkloadFigures:
        """Return them. It is called rarely, may take seconds, and must not disturb runs. Raises HalError."""
        ...


@runtime_checkable
class TimedWorkload(Workload, Protocol):
    """A workload that tells how long each of its operations takes."""

    def operation_times(self, control: Control) -> OperationTimes:
        """Return what a model of the hardware says, or run the operations and measure them: only when it is asked.

        It must not disturb runs, and ends as they do by ``control``; what was measured before counts. Raises HalError.
        """
        ...


@runtime_checkable
class MeasuredWorkload(Workload, Protocol):
    """A workload of a ShrinkableDriver, which takes a known amount of its working memory."""

    working_bytes: int
    """Bytes of the device's working memory that a run takes."""


@runtime_checkable
class RestoringDriver(Protocol):
    """A driver that makes workloads of artifacts without being asked which operations it supports."""

    def replaced_constants(self, model: ResolvedModel) -> Collection[int]:
        """Return the constants of main, as operands, that ``restore`` does not read. They are not cached."""
        ...

    def restore(self, model: ResolvedModel, options: PrepareOptions) -> Workload | None:
        """Return the workload that ``options.artifact`` holds; None if it does not fit model, machine or options.

        The replaced constants of ``model`` are zeros. After None the preparation fails with GENERAL_FAILURE, and
        the client gives the model itself. Raises HalError.
        """
        ...


@runtime_checkable
class ShrinkableDriver(Protocol):
    """A driver with working memory of its own, such as an SRAM, that can be told to do with less of it.

    Without a limit, ``prepare`` and ``backend.optimize`` do what these methods do with all of it.
    """

    working_bytes: int
    """Bytes of working memory that a model may take."""

    def prepare_within(self, model: ResolvedModel, options: PrepareOptions, working_bytes: int) -> Workload:
        """Prepare a model for at most so many bytes of working memory.

        Raises RESOURCE_EXHAUSTED_PERSISTENT if it does not fit, and as ``prepare``.
        """
        ...

    def optimize_within(self, model: ResolvedModel, working_bytes: int) -> OptimizationViews:
        """Optimise a model for at most so many bytes of working memory: what does not fit fails."""
        ...


@runtime_checkable
class RefusingDriver(Protocol):
    """A driver whose ``prepare`` refuses what it does not support, so that asking it before would compile twice."""

    def foreseen_support(self, model: ResolvedModel) -> Sequence[Support] | None:
        """Answer for each operation of main without compiling: ``prepare`` may still refuse what is supported here.

        Returns None if ``supported_operations`` must be asked before this model is prepared.
        """
        ...


@runtime_checkable
class SerialDriver(Protocol):
    """A driver that says whether its runs may overlap. Those of other drivers may."""

    is_serial: bool
    """True if a run begins only after the one before it has ended, however many workers are asked for."""


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
        """Answer for each operation of main. It must be fast, and independent of load."""
        ...

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        """Compile a model whose operations are all supported. Raises HalError."""
        ...


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """The options of a driver when its process starts."""

    threads: int = 1
    """For one execution. The process of the device holds numpy's BLAS to it."""

    extra: Mapping[str, str] = field(default_factory=dict)
    """The driver's own options by name, as the user wrote them."""

    def require_known(self, driver: str, *names: str) -> None:
        """Raise ValueError for an option of ``extra`` that a driver does not have."""
        for name in self.extra:
            if name not in names:
                raise ValueError(f"{driver} has no option {name!r}, expected {', '.join(names) or 'none'}")


def _has_passed(deadline_ns: int) -> bool:
    return deadline_ns != NO_DEADLINE and now_ns() > deadline_ns
