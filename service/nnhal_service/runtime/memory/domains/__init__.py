"""Memory domains of a plan: memory for certain inputs and outputs, a device's own where that can be."""

from nnhal_service.runtime.memory.domains.allocate import allocate
from nnhal_service.runtime.memory.domains.allocated import AllocatedMemory, Memories
from nnhal_service.runtime.memory.domains.bound_memory import BoundMemory
from nnhal_service.runtime.memory.domains.description import MemoryDescription, ModelRole, StepRole, step_roles

__all__ = [
    "AllocatedMemory",
    "BoundMemory",
    "Memories",
    "MemoryDescription",
    "ModelRole",
    "StepRole",
    "allocate",
    "step_roles",
]
