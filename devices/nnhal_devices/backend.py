"""What a device offers the framework beyond the HAL, in the words of Arm NN's backend interface.

LayerSupport and WorkloadFactory are the driver's own two methods (see driver.py); here is the rest, all of it optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from nnhal.resolved import ResolvedModel
from nnhal.types import FailedSubgraph, OptimizationViews, Substitution, TensorHandleFactory, TransferCosts

__all__ = [
    "Backend",
    "BackendContext",
    "CommandQueue",
    "FailedSubgraph",
    "MemoryKind",
    "MemoryManager",
    "MemoryRules",
    "OptimizationViews",
    "Substitution",
    "TensorHandleFactory",
    "TransferCosts",
    "tensor_handles_of",
    "untouched",
]


class MemoryKind(StrEnum):
    """A kind of memory that a pool may be: malloc-like, a file, dma-buf-like."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"


@dataclass(frozen=True, slots=True)
class MemoryRules:
    """What memory a device uses in place. The host stages the rest: copies it in before a run and out after."""

    imports: frozenset[MemoryKind] = frozenset(MemoryKind)
    alignment: int = 1


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
