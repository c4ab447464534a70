"""System shared memory: files of clients in /dev/shm, registered by name."""

from nnhal_service.v2.shared_memory.registry import SystemSharedMemory

__all__ = ["SystemSharedMemory"]
