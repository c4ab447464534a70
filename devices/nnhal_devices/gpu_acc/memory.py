"""Working memory of the device: where values lie that an execution makes and uses up itself.

The queue is in order, so that one execution at a time needs it, and all of them have the same piece. It grows to what
the largest has needed. The emulator only counts it: the values lie where ONNX Runtime puts them.
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
"""What the device has of it."""


class WorkingMemory:
    """A budget of device-local memory; see MemoryManager. Safe to use from several threads.

    It is given back with the last execution that holds it, or kept for the next one while networks are loaded.
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
        """What is taken of the budget at this moment."""
        return self._bytes

    def acquire(self) -> None:
        """Hold what there is, for an execution that begins."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Let it go again."""
        with self._lock:
            self._holders -= 1
            self._give_back()

    def require(self, size: int) -> None:
        """Raise GENERAL_FAILURE where the budget has no room for so many bytes."""
        if size > self.budget:
            general_failure(f"an execution needs {size} bytes of working memory, gpu_acc has {self.budget}")

    def grow(self, size: int) -> None:
        """Have so many bytes at least, while it is held. Raises as ``require``."""
        self.require(size)
        with self._lock:
            self._bytes = max(self._bytes, size)

    def keep(self, kept: bool) -> None:
        """Whether it outlasts the executions that hold it."""
        with self._lock:
            self._kept = kept
            self._give_back()

    def _give_back(self) -> None:
        if not (self._holders or self._kept):
            self._bytes = 0


class LoadedNetworks:
    """The context of the backend: as long as networks are loaded, working memory is kept between executions."""

    def __init__(self, memory: WorkingMemory) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._loaded: set[int] = set()

    def before_load_network(self, network: int) -> None:
        """See BackendContext."""
        with self._lock:
            self._loaded.add(network)
            self._memory.keep(True)

    def after_load_network(self, network: int) -> None:
        """See BackendContext."""

    def before_unload_network(self, network: int) -> None:
        """See BackendContext."""

    def after_unload_network(self, network: int) -> None:
        """See BackendContext. With the last network its memory goes."""
        with self._lock:
            self._loaded.discard(network)
            self._memory.keep(bool(self._loaded))


def working_bytes(model: ResolvedModel) -> int:
    """The most that the temporaries of main take at a time, operation after operation. Unknown axes are 1."""
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
