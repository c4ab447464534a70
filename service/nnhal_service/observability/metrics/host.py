"""The host's processors and memory, from /proc (proc(5)), and the limit of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from nnhal_hosting.memory_bounds import MemoryBounds

_IDLE = (3, 4)
"""Columns idle and iowait of the line ``cpu`` in /proc/stat."""
_COUNTED = 8
"""Columns that are added up; the later ones are included in these."""


class Host:
    """Reads /proc. Utilisation is that since the last time it was read, or since the start."""

    def __init__(self, proc: Path = Path("/proc"), memory: MemoryBounds | None = None) -> None:
        """Raises OSError if the directory does not exist."""
        self._proc = proc
        self._groups = memory or MemoryBounds()
        self._last = self._times()

    def families(self) -> Iterator[Metric]:
        """Yield the utilisation of all processors together, 0 to 1, and memory. Raises OSError."""
        busy, total = self._times()
        passed = total - self._last[1]
        utilization = (busy - self._last[0]) / passed if passed > 0 else 0.0
        self._last = busy, total
        memory = self._memory()
        most = memory["MemTotal"]
        yield GaugeMetricFamily("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", utilization)
        yield GaugeMetricFamily("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", most)
        used = most - memory["MemAvailable"]
        yield GaugeMetricFamily("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", used)
        limits = [pair for pair in self._groups.group_limits() if pair[1] < most]
        used, limit = min(limits, key=lambda pair: pair[1], default=(used, most))  # the tightest; without any the host
        text = "Bytes of memory that the framework's container or service may use, those of the host without a limit"
        yield GaugeMetricFamily("nnhal_memory_limit_bytes", text, limit)
        yield GaugeMetricFamily("nnhal_memory_used_bytes", "Bytes that are used of nnhal_memory_limit_bytes", used)

    def _times(self) -> tuple[int, int]:
        """Return the busy ticks and all ticks."""
        line = (self._proc / "stat").read_text().split("\n", 1)[0]
        ticks = [int(text) for text in line.split()[1:]][:_COUNTED]
        total = sum(ticks)
        return total - sum(ticks[column] for column in _IDLE), total

    def _memory(self) -> dict[str, int]:
        """Return bytes by the names of /proc/meminfo."""
        lines = (self._proc / "meminfo").read_text().splitlines()
        return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
