"""Memory domains of a plan: memory for inputs, outputs and values between steps, a device's own if possible."""

from nnhal_service.runtime.memory.domains.allocate import allocate, allocate_kept
from nnhal_service.runtime.memory.domains.allocated import AllocatedMemory, BoundMemory, Memories
from nnhal_service.runtime.memory.domains.description import MemoryDescription, ModelRole, StepRole, step_roles
from nnhal_service.runtime.memory.domains.storage import Storage

__all__ = [
    "AllocatedMemory",
    "BoundMemory",
    "Memories",
    "MemoryDescription",
    "ModelRole",
    "StepRole",
    "Storage",
    "allocate",
    "allocate_kept",
    "step_roles",
]
