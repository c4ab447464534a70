"""What the host is doing: processors and memory, from /proc (proc(5))."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

_IDLE = (3, 4)
"""Columns of the line ``cpu`` in /proc/stat: idle and iowait."""
_COUNTED = 8
"""Columns that add up; those behind them are parts of others."""


class Host:
    """Utilisation is that since the last time that it was asked for, or since the start."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        """Raises OSError where there is no such directory."""
        self._proc = proc
        self._last = self._times()

    def families(self) -> Iterator[Metric]:
        """Processors, between 0 and 1 for all of them together, and memory. Raises OSError."""
        busy, total = self._times()
        passed = total - self._last[1]
        utilization = (busy - self._last[0]) / passed if passed > 0 else 0.0
        self._last = busy, total
        memory = self._memory()
        yield GaugeMetricFamily("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", utilization)
        yield GaugeMetricFamily("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", memory["MemTotal"])
        used = memory["MemTotal"] - memory["MemAvailable"]
        yield GaugeMetricFamily("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", used)

    def _times(self) -> tuple[int, int]:
        """Ticks: busy, and all."""
        line = (self._proc / "stat").read_text().split("\n", 1)[0]
        ticks = [int(text) for text in line.split()[1:]][:_COUNTED]
        total = sum(ticks)
        return total - sum(ticks[column] for column in _IDLE), total

    def _memory(self) -> dict[str, int]:
        """Bytes, by the names of /proc/meminfo."""
        lines = (self._proc / "meminfo").read_text().splitlines()
        return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
