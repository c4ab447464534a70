"""What it costs to copy bytes from one memory to another."""

from __future__ import annotations

from math import ceil

from nnhal_cascade.hardware.memory import System


def copy_cycles(system: System, source: str, destination: str, size: int) -> int:
    """Return the cycles of a copy between two regions: those of the slower side. Reading starts with a latency.

    Raises:
        ValueError: the system has no region of one of the names.
    """
    if size == 0:
        return 0
    from_, to = system.region(source), system.region(destination)
    return ceil(max(size / from_.bandwidth + from_.read_latency, size / to.bandwidth))
