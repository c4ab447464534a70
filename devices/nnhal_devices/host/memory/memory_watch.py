"""Limit of a device process's own memory, beyond which it ends: the device dies, and not the host.

Libraries such as ONNX Runtime allocate arenas and inner tensors whose sizes nobody knows before. Limits of the kernel
(RLIMIT_AS, RLIMIT_DATA) count what is reserved and never touched, and make allocations fail at points that libraries
do not survive. So the process looks at what it has, and ends itself, while there is still memory to say why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from nnhal_hosting.logs import get_logger
from nnhal_hosting.memory_bounds import MemoryBounds
from nnhal_hosting.own_memory import OwnBytes

_SCORE = 500
_log = get_logger(__name__)


def prefer_for_oom_kill() -> None:
    """Have the kernel end this process rather than others if the host has no memory left."""
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        if int(score.read_text()) < _SCORE:
            score.write_text(str(_SCORE))


class MemoryWatch:
    """Ends a process that takes more memory of its own than ``limit`` bytes; 0 stands for the usual limit."""

    def __init__(self, limit: int, last_resort: Callable[[str], object], used: Callable[[], int] | None = None) -> None:
        """``last_resort`` is called with the reason why it ends, ``used`` says how much it has. Raises OSError."""
        self.used = used or OwnBytes()
        self.limit = limit or MemoryBounds().usual_limit(self.used())
        self._last_resort = last_resort

    def look(self, running: Callable[[], Sequence[str]]) -> None:
        """End the process if it has too much; ``running`` names the executions of this moment for the log."""
        used = self.used()
        if used > self.limit:
            _log.error(
                "the process has taken more memory than it may (NNHAL_DEVICE_MEMORY_BYTES): it ends",
                bytes=used,
                limit=self.limit,
                executions=", ".join(running()) or "none: it prepares models, or keeps what it has prepared",
            )
            self._last_resort(f"it has taken {used:,} bytes of memory, expected {self.limit:,} at the most")
