"""Memory domains of a plan: memory for certain inputs and outputs, a device's own where that can be."""

from nnhal_service.runtime.domains.allocate import allocate
from nnhal_service.runtime.domains.allocated import AllocatedMemory
from nnhal_service.runtime.domains.description import MemoryDescription, ModelRole
from nnhal_service.runtime.domains.kept import Memories
from nnhal_service.runtime.domains.memory import DomainMemory
from nnhal_service.runtime.domains.roles import StepRole, step_roles

__all__ = [
    "AllocatedMemory",
    "DomainMemory",
    "Memories",
    "MemoryDescription",
    "ModelRole",
    "StepRole",
    "allocate",
    "step_roles",
]
