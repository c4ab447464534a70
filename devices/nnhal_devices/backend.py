"""What a device offers the framework beyond the HAL, in the words of Arm NN's backend interface.

LayerSupport and WorkloadFactory are the driver's own two methods (see driver.py); here is the rest, all of it optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from nnhal.resolved import ResolvedModel


class MemoryKind(Enum):
    """A kind of memory that a pool may be: malloc-like, a file, dma-buf-like."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """What memory a device uses in place. The host stages the rest: copies it in before a run and out after."""

    imports: frozenset[MemoryKind] = frozenset(MemoryKind)
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class TensorHandleFactory:
    """One way in which a device takes and gives the memory of a value.

    ``imports`` are kinds of memory that it takes as they are, ``exports`` those in which it leaves results for others.
    ``maps`` says whether its memory can be mapped, and so be copied into and out of. ``alignment`` in bytes. With
    ``fallback_import_memory_required`` memory for its results is allocated by the framework, for both sides of an edge.
    """

    id: str
    imports: frozenset[MemoryKind] = frozenset()
    exports: frozenset[MemoryKind] = frozenset()
    maps: bool = True
    alignment: int = 1
    fallback_import_memory_required: bool = False


@dataclass(frozen=True, slots=True)
class TransferCosts:
    """The parts of a cost model that are no operation's, nanoseconds.

    ``hop_ns`` to launch an execution and learn of its end, ``sync_ns`` to make results visible, ``import_ns`` to import
    a piece of memory.
    """

    hop_ns: float = 60_000.0
    sync_ns: float = 0.0
    import_ns: float = 1_000.0
    copy_ns_per_byte: float = 0.1


@dataclass(frozen=True, slots=True)
class Substitution:
    """Operations that a device runs as one thing, ``replacement``."""

    operations: tuple[int, ...]
    replacement: str


@dataclass(frozen=True, slots=True)
class FailedSubgraph:
    """Operations that a device cannot run together after all, and why."""

    operations: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class OptimizationViews:
    """What became of a subgraph. Each of its operations is in exactly one place."""

    substitutions: tuple[Substitution, ...] = ()
    failed: tuple[FailedSubgraph, ...] = ()
    untouched: tuple[int, ...] = ()


class MemoryManager(Protocol):
    """Working memory of a device: acquired before a network runs, released after; as often, from several threads."""

    def acquire(self) -> None:
        """Have the memory. Raises GENERAL_FAILURE where there is none."""
        ...

    def release(self) -> None:
        """Let it go with the last one that needs it."""
        ...


class BackendContext(Protocol):
    """Who wants to know when networks come and go. What it raises is logged and changes nothing."""

    def before_load_network(self, network: int) -> None:
        """A network is about to be loaded."""
        ...

    def after_load_network(self, network: int) -> None:
        """It has been loaded, or loading it has failed."""
        ...

    def before_unload_network(self, network: int) -> None:
        """It is about to be unloaded."""
        ...

    def after_unload_network(self, network: int) -> None:
        """It has been unloaded."""
        ...


class CommandQueue(Protocol):
    """The queue of an asynchronous device: what is enqueued is done in order, and visible to others after a sync."""

    def sync(self) -> None:
        """Do everything that was enqueued and make it visible. What fails is told by its own result."""
        ...


def untouched(model: ResolvedModel) -> OptimizationViews:
    """The optimiser of a device that has none."""
    return OptimizationViews(untouched=tuple(range(len(model.model.main.operations))))


@dataclass(frozen=True, slots=True)
class Backend:
    """What a device offers beyond the HAL.

    ``operation_ns`` gives the modelled nanoseconds of each operation of main, by a documented model. ``optimize`` gets
    a model of which every operation is supported. ``realisation`` says what the device is in truth. Without
    ``tensor_handles`` the device's memory rules are its one way of taking values.
    """

    operation_ns: Callable[[ResolvedModel], Sequence[float]]
    transfer_costs: TransferCosts = field(default_factory=TransferCosts)
    optimize: Callable[[ResolvedModel], OptimizationViews] = untouched
    tensor_handles: tuple[TensorHandleFactory, ...] = ()
    memory_manager: MemoryManager | None = None
    context: BackendContext | None = None
    queue: CommandQueue | None = None
    realisation: str = ""


def tensor_handles_of(name: str, backend: Backend, rules: MemoryRules) -> tuple[TensorHandleFactory, ...]:
    """A device's ways of taking values, the preferred first."""
    return backend.tensor_handles or (
        TensorHandleFactory(f"{name}/import", rules.imports, rules.imports, maps=True, alignment=rules.alignment),
    )
