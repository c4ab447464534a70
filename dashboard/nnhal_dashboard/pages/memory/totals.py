"""How much memory there is in all, and in each process."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_dashboard.world.shared_memory import total_bytes
from nnhal_dashboard.world.snapshot import ObservedProcess, Snapshot


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of a process, in bytes."""

    process: ObservedProcess
    resident: int
    """Shared memory included."""
    shared: int
    """Shared memory that it holds, each piece once."""
    mapped: int
    """How much of that it has mapped."""
    staged: int
    """How much of that it copies before and after executions."""
    buffers: int
    """Buffers of memory domains."""
    buffer_limit: int
    """Room for buffers; 0 if it has none."""


def process_memories(snapshot: Snapshot) -> list[ProcessMemory]:
    """List the processes of which memory is known."""
    rows = []
    for process in snapshot.processes:
        said = process.last_said
        if said is None:
            continue
        device = process.device
        rows.append(
            ProcessMemory(
                process,
                said.usage.resident_bytes,
                total_bytes(said.pools),
                total_bytes(pool for pool in said.pools if pool.mapped),
                total_bytes(pool for pool in said.pools if pool.staged),
                device.buffer_bytes if device is not None else sum(buffer.bytes for buffer in said.buffers),
                device.buffer_limit_bytes if device is not None else 0,
            )
        )
    return rows


def arena_bytes(snapshot: Snapshot) -> int:
    """Add up the arenas of all models."""
    framework = snapshot.framework
    if framework is None:
        return 0
    served = sum(model.arena_bytes for model in framework.models)
    return served + sum(model.arena_bytes for model in framework.session_models)
