"""The memory of the host that values of runs lie in: between steps, in arenas, and in place of devices' own buffers.

The framework creates it for what clients have bound, and nobody else can be charged for it. So one limit holds for the
whole process, as there is one host. It is charged when it is created, though the kernel provides pages when devices
write to them: then nobody could refuse any more.
"""

from __future__ import annotations

from nnhal.memory import CopyBudget, create_ashmem, create_blob
from nnhal.types import Memory
from nnhal_hosting.memory_bounds import MemoryBounds

SETTING = "NNHAL_SERVICE_VALUE_BYTES"
_budget = CopyBudget(MemoryBounds().usual_limit(), SETTING)


def limit_run_memory(size: int) -> None:
    """Have what is created from now on share ``size`` bytes; 0 stands for the usual limit of this process."""
    global _budget
    _budget = CopyBudget(size or MemoryBounds().usual_limit(), SETTING)


def run_ashmem(size: int) -> Memory:
    """Create ashmem for values. Raises RESOURCE_EXHAUSTED_TRANSIENT beyond the limit, OSError, or ValueError."""
    memory = create_ashmem(size)
    _budget.charge_for(memory.descriptor, size, "memory for values of a run")
    return memory


def run_blob(size: int) -> Memory:
    """Create a BLOB for values, of less than 2 GiB. Raises as ``run_ashmem``."""
    memory = create_blob(size)
    _budget.charge_for(memory.handle.descriptors[0], size, "memory for values of a run")
    return memory
