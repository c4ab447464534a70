"""How much memory this process and those beside it may use, and do: those of its container, or of the whole host.

The limit is that of the control group (cgroups(7)), of version 1 or 2. A process whose group exceeds it is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric


@dataclass(frozen=True, slots=True)
class _Controller:
    """Where a version of control groups says what is needed."""

    folder: str
    """Below the folder of control groups."""
    limit: str
    used: str
    reclaimed: str
    """The name, in ``memory.stat``, of file pages that the kernel gives up first."""


_VERSION_2 = _Controller("", "memory.max", "memory.current", "inactive_file")
_VERSION_1 = _Controller("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


class MemoryLimit:
    """Reads the control group of this process."""

    def __init__(self, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc = proc
        self._groups = groups

    def families(self, host_bytes: int, host_used_bytes: int) -> Iterator[Metric]:
        """Yield the tightest limit and what is used of it; without a limit, the memory of the host."""
        used, limit = min(self._limits(host_bytes), key=lambda pair: pair[1], default=(host_used_bytes, host_bytes))
        text = "Bytes of memory that the framework's container or service may use, those of the host without a limit"
        yield GaugeMetricFamily("nnhal_memory_limit_bytes", text, limit)
        yield GaugeMetricFamily("nnhal_memory_used_bytes", "Bytes that are used of nnhal_memory_limit_bytes", used)

    def _limits(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield what is used and allowed in each group that contains this process and allows less than ``most``."""
        for controller, path in self._memberships():
            root = self._groups / controller.folder
            own = root / path
            # A container sees its own group as the root, though its path may be that on the host.
            for group in (own, *own.parents) if own.is_dir() else (root,):
                if group.is_relative_to(root):
                    limit = _number(group / controller.limit)
                    if limit is not None and 0 < limit < most:
                        yield _used(group, controller), limit

    def _memberships(self) -> Iterator[tuple[_Controller, str]]:
        """Yield the path of the group that limits memory, if there is one, in each version."""
        try:
            lines = (self._proc / "self/cgroup").read_text().splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield _VERSION_2, path.lstrip("/")
            elif "memory" in controllers.split(","):
                yield _VERSION_1, path.lstrip("/")


def _used(group: Path, controller: _Controller) -> int:
    try:
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        lines = []
    reclaimed = next((int(line.split()[1]) for line in lines if line.startswith(f"{controller.reclaimed} ")), 0)
    return max(0, (_number(group / controller.used) or 0) - reclaimed)


def _number(path: Path) -> int | None:
    """The number in a file; None for none, such as ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
