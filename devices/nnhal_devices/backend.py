"""What a device offers the framework beyond the HAL, in the words of Arm NN's backend interface.

LayerSupport and WorkloadFactory are the two methods of a driver (see driver.py). The rest is here, and optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from nnhal.resolved import ResolvedModel


class MemoryKind(Enum):
    """The kinds of memory of a pool: malloc-like, a file, dma-buf-like."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """The memory that a device uses in place. The host stages the rest: it copies it in before a run and out after."""

    imports: frozenset[MemoryKind] = frozenset(MemoryKind)
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device imports and exports the memory of a value."""

    id: str

    imports: frozenset[MemoryKind] = frozenset()
    """The kinds of memory that it uses in place."""

    exports: frozenset[MemoryKind] = frozenset()
    """The kinds of memory in which it leaves results for other devices."""

    maps: bool = True
    """Whether its memory can be mapped, and so be copied into and out of."""

    alignment: int = 1
    """In bytes."""

    fallback_import_memory_required: bool = False
    """Whether the framework allocates the memory for its results, for both sides of an edge."""


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """The costs of a run that belong to no operation, in nanoseconds."""

    hop_ns: float = 60_000.0
    """To launch an execution and learn of its end."""

    sync_ns: float = 0.0
    """To make results visible."""

    import_ns: float = 1_000.0
    """To import one piece of memory."""

    copy_ns_per_byte: float = 0.1


@dataclass(frozen=True, slots=True)
class Substitution:
    """Operations that a device runs as one, which ``replacement`` describes."""

    operations: tuple[int, ...]
    replacement: str


@dataclass(frozen=True, slots=True)
class FailedSubgraph:
    """Supported operations that a device cannot run together, and why."""

    operations: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """The result of optimising a subgraph. Each operation is in exactly one of the three."""

    substitutions: tuple[Substitution, ...] = ()
    failed: tuple[FailedSubgraph, ...] = ()
    untouched: tuple[int, ...] = ()


class MemoryManager(Protocol):
    """The working memory of a device: acquired before each run, released after it, from several threads."""

    def acquire(self) -> None:
        """Acquire the memory. Raises GENERAL_FAILURE if there is none."""
        ...

    def release(self) -> None:
        """Release the memory, which is freed with its last holder."""
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
    """What a device offers beyond the HAL."""

    operation_ns: Callable[[ResolvedModel], Sequence[float]]
    """The modelled nanoseconds of each operation of main, by a documented model."""

    transfer_costs: TransferCosts = field(default_factory=TransferCosts)

    optimize: Callable[[ResolvedModel], OptimizationViews] = untouched
    """Optimises a model of which every operation is supported."""

    tensor_handles: tuple[TensorHandleFactory, ...] = ()
    """The preferred first. By default there is one, made of the device's memory rules."""

    memory_manager: MemoryManager | None = None

    context: BackendContext | None = None

    queue: CommandQueue | None = None
    """The queue of an asynchronous device."""

    realisation: str = ""
    """What the emulated device really runs on."""


def tensor_handles_of(name: str, backend: Backend, rules: MemoryRules) -> tuple[TensorHandleFactory, ...]:
    """A device's tensor handle factories, the preferred first."""
    return backend.tensor_handles or (
        TensorHandleFactory(f"{name}/import", rules.imports, rules.imports, maps=True, alignment=rules.alignment),
    )
