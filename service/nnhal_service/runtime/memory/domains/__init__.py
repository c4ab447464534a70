"""Memory domains of a plan: memory for inputs and outputs, a device's own if possible."""

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
