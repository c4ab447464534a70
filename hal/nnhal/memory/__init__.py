"""Shared memory: creating it, checking it, and using it in place."""

from nnhal.memory.arena import Lifetime, plan_arena
from nnhal.memory.ashmem import create_ashmem, create_read_only, is_tmpfs, read_only
from nnhal.memory.copy_budget import CopyBudget
from nnhal.memory.file_identity import FileIdentity, identity_of, is_regular
from nnhal.memory.guard import GuardedRegion, MemoryGuard, faults_admitted
from nnhal.memory.hardware_buffer import BufferDescription, create_blob, create_hardware_buffer, describe_buffer
from nnhal.memory.mapping import Region, mapped_regions, seals_of
from nnhal.memory.mmap_fd import map_file
from nnhal.memory.pool import (
    FilePool,
    GuardedPool,
    MappedPool,
    Pool,
    cannot_change,
    open_pool,
    read_pools,
    seal_for_readers,
    validate_bytes,
    validate_pool,
)

__all__ = [
    "BufferDescription",
    "CopyBudget",
    "FileIdentity",
    "FilePool",
    "GuardedPool",
    "GuardedRegion",
    "Lifetime",
    "MappedPool",
    "MemoryGuard",
    "Pool",
    "Region",
    "cannot_change",
    "create_ashmem",
    "create_blob",
    "create_hardware_buffer",
    "create_read_only",
    "describe_buffer",
    "faults_admitted",
    "identity_of",
    "is_regular",
    "is_tmpfs",
    "map_file",
    "mapped_regions",
    "open_pool",
    "plan_arena",
    "read_only",
    "read_pools",
    "seal_for_readers",
    "seals_of",
    "validate_bytes",
    "validate_pool",
]
