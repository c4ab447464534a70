"""The working memory of the device, for the values between the operations of an execution.

The queue is in order, so one execution at a time needs working memory, and all share one piece. It grows to the size
that the largest has needed. The emulator only counts it: ONNX Runtime allocates the values.
"""

from __future__ import annotations

import threading
from collections import Counter
from math import prod

from nnhal.errors import general_failure
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import OperandLifeTime
from nnhal.types.layout import ELEMENT_TYPES

WORKING_MEMORY_BYTES = 512 << 20
"""The budget of working memory."""


class WorkingMemory:
    """A MemoryManager with a budget of device-local memory. Safe to use from several threads.

    Memory is freed with the last execution that holds it, or kept for the next one while networks are loaded.
    """

    def __init__(self, budget: int = WORKING_MEMORY_BYTES) -> None:
        """``budget`` in bytes."""
        self.budget = budget
        self._lock = threading.Lock()
        self._holders = 0
        self._kept = False
        self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def acquire(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Release the memory, and free it with the last holder unless it is kept."""
        with self._lock:
            self._holders -= 1
            self._free_unused()

    def require(self, size: int) -> None:
        """Raise GENERAL_FAILURE if ``size`` exceeds the budget."""
        if size > self.budget:
            general_failure(f"an execution needs {size} bytes of working memory, gpu_acc has {self.budget}")

    def grow(self, size: int) -> None:
        """Grow the memory to at least ``size``, while it is held. Raises as ``require``."""
        self.require(size)
        with self._lock:
            self._bytes = max(self._bytes, size)

    def keep(self, kept: bool) -> None:
        """Set whether memory is kept after the last execution that holds it."""
        with self._lock:
            self._kept = kept
            self._free_unused()

    def _free_unused(self) -> None:
        if not (self._holders or self._kept):
            self._bytes = 0


class LoadedNetworks:
    """The backend's context: it keeps working memory between executions while networks are loaded."""

    def __init__(self, memory: WorkingMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._loaded: set[int] = set()

    def before_load_network(self, network: int) -> None:
        """Keep working memory from now on."""
        with self._lock:
            self._loaded.add(network)
            self._memory.keep(True)

    def after_load_network(self, network: int) -> None:
        """Do nothing."""

    def before_unload_network(self, network: int) -> None:
        """Do nothing."""

    def after_unload_network(self, network: int) -> None:
        """Free working memory with the last network."""
        with self._lock:
            self._loaded.discard(network)
            self._memory.keep(bool(self._loaded))


def working_bytes(model: ResolvedModel) -> int:
    """The peak size of the temporaries of main, operation after operation. Unknown axes count as 1."""
    graph, dimensions = model.model.main, propagate_dimensions(model)
    sizes = {
        index: ELEMENT_TYPES[operand.type].itemsize * prod(axis or 1 for axis in dimensions[index])
        for index, operand in enumerate(graph.operands)
        if operand.lifetime == OperandLifeTime.TEMPORARY_VARIABLE
    }
    uses = Counter(index for operation in graph.operations for index in operation.inputs if index in sizes)
    taken = most = 0
    for operation in graph.operations:
        results = [index for index in operation.outputs if index in sizes]
        taken += sum(sizes[index] for index in results)
        most = max(most, taken)
        taken -= sum(sizes[index] for index in results if not uses[index])
        for index in operation.inputs:
            if index in sizes:
                uses[index] -= 1
                taken -= 0 if uses[index] else sizes[index]
    return most
