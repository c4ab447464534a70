"""Offers of a device to the framework beyond the HAL, in the words of Arm NN's backend interface.

LayerSupport and WorkloadFactory are the two methods of a driver (see driver.py). The rest is here, and optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nnhal.arrays import Bytes
from nnhal.resolved import ResolvedModel
from nnhal.support import OperationLimit
from nnhal.types import FailedSubgraph, OptimizationViews, Substitution, TensorHandleFactory, TransferCosts
from nnhal_devices.figures import DeviceFigure

__all__ = [
    "Backend",
    "BackendContext",
    "CommandQueue",
    "DeviceFigure",
    "DeviceMemory",
    "FailedSubgraph",
    "MemoryKind",
    "MemoryManager",
    "MemoryRules",
    "OperationLimit",
    "OptimizationViews",
    "Substitution",
    "TensorHandleFactory",
    "TransferCosts",
    "tensor_handles_of",
    "untouched",
]


class MemoryKind(StrEnum):
    """The kinds of memory of a pool: malloc-like, a file, dma-buf-like."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """The memory that a device uses in place. The host stages the rest: it copies it in before a run and out after."""

    imports: frozenset[MemoryKind] = frozenset(MemoryKind)

    alignment: int = 1
    """Bytes."""

    unlocked: bool = False
    """True if runs access arguments only without the interpreter's lock, as ONNX Runtime and ``ctypes`` do, and numpy
    does not; in the caller's thread, or in threads that were started when the model was prepared.

    Files that may shrink are then mapped under a guard. If one shrinks during a run, the thread that accesses it is
    suspended until another has replaced the pages, which a thread that holds the lock would prevent for ever.
    """


class MemoryManager(Protocol):
    """The working memory of a device: acquired before each run, released after it, from several threads."""

    def acquire(self) -> None:
        """Acquire the memory. Raises GENERAL_FAILURE if there is none."""
        ...

    def release(self) -> None:
        """Release the memory, which is freed with its last holder."""
        ...


class DeviceMemory(Protocol):
    """Memory of the device itself, in which buffers of memory domains lie. The host reaches it through views.

    A view is the array that ``allocate`` has returned, or its first bytes: it begins at the same address. Runs get
    views as the data of their arguments, and need not keep them up to date. Called from several threads.
    """

    def allocate(self, size: int) -> Bytes:
        """Allocate ``size`` bytes, at least one, of zeroed memory, and return the host's view of it.

        The memory may be freed when the array is collected, which the host keeps as long as it is used. Raises
        GENERAL_FAILURE.
        """
        ...

    def fetch(self, view: Bytes) -> None:
        """Bring as many bytes of the memory as the view has into the view, for the host to read. Raises HalError."""
        ...

    def store(self, view: Bytes) -> None:
        """Bring what the host has written into the view to the memory. Raises HalError."""
        ...


class BackendContext(Protocol):
    """Is notified when networks are loaded and unloaded. What it raises is logged, and changes nothing."""

    def before_load_network(self, network: int) -> None:
        """Called when a network is about to be loaded."""
        ...

    def after_load_network(self, network: int) -> None:
        """Called when it has been loaded, or loading it has failed."""
        ...

    def before_unload_network(self, network: int) -> None:
        """Called when it is about to be unloaded."""
        ...

    def after_unload_network(self, network: int) -> None:
        """Called when it has been unloaded."""
        ...


class CommandQueue(Protocol):
    """The queue of an asynchronous device: work is done in order, and its results are visible after a sync."""

    def sync(self) -> None:
        """Do all enqueued work and make it visible. Failed work raises from its own ``result``."""
        ...


def untouched(model: ResolvedModel) -> OptimizationViews:
    """Optimise nothing: the default of a device without an optimiser."""
    return OptimizationViews(untouched=tuple(range(len(model.model.main.operations))))


@dataclass(frozen=True, slots=True)
class Backend:
    """Offers of a device beyond the HAL."""

    operation_ns: Callable[[ResolvedModel], Sequence[float]]
    """The modelled nanoseconds of each operation of main, by a documented model."""

    transfer_costs: TransferCosts = field(default_factory=TransferCosts)

    optimize: Callable[[ResolvedModel], OptimizationViews] = untouched
    """Optimises a model whose operations are all supported."""

    tensor_handles: tuple[TensorHandleFactory, ...] = ()
    """The preferred first. By default there is one, made of the device's memory rules."""

    memory_manager: MemoryManager | None = None

    context: BackendContext | None = None

    queue: CommandQueue | None = None
    """The queue of an asynchronous device."""

    realisation: str = ""
    """What the emulated device really runs on."""

    operation_limits: Callable[[], Sequence[OperationLimit]] = tuple
    """What the device takes of each operation that it has, for people to read; empty if that has not been written."""

    figures: Callable[[], Sequence[DeviceFigure]] = tuple
    """Figures of the device at this moment, such as memory of its own in use. It must be fast."""

    temperature: Callable[[], float] | None = None
    """Degrees Celsius of the emulated hardware, if it emulates that."""

    memory: DeviceMemory | None = None
    """Memory of the device itself, for buffers of memory domains; None if that of the host will do."""

    source_extension: str = ""
    """An extension whose one operation it prefers to a whole step, if a front end has made the step's operations from
    that extension's language; empty if there is none."""

    takes_files: bool = False
    """True if it may be given a whole file as that one operation without having been asked: preparing it tells whether
    it is supported. No device that ``is_reference`` may be modelled to be faster at any operation."""

    is_reference: bool = False
    """True if it is there for operations that no other device takes, and slower than others at each."""

    together: Callable[[ResolvedModel], Sequence[Sequence[int]]] = lambda _: ()
    """Operations of main that it takes only together, in ascending order. An operation is in one group at most, and
    only the last of a group has results that others read."""


def tensor_handles_of(name: str, backend: Backend, rules: MemoryRules) -> tuple[TensorHandleFactory, ...]:
    """A device's tensor handle factories, the preferred first."""
    return backend.tensor_handles or (
        TensorHandleFactory(f"{name}/import", rules.imports, rules.imports, maps=True, alignment=rules.alignment),
    )
