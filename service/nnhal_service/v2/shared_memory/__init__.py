"""System shared memory: files in /dev/shm that clients own, registered by name."""

from nnhal_service.v2.shared_memory.registry import SystemSharedMemory

__all__ = ["SystemSharedMemory"]
