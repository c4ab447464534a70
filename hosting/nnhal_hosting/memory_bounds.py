"""Memory of this process and those beside it, and its bounds: those of its container, or of the whole host.

The limits are those of the control groups (cgroups(7)) of version 1 or 2 that contain the process. The kernel kills a
process of a group that exceeds its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Controller:
    """Files in which a version of control groups says what is needed."""

    folder: str
    """Below the folder of control groups."""
    limit: str
    used: str
    reclaimed: str
    """The name, in ``memory.stat``, of file pages that the kernel gives up first."""


_VERSION_2 = _Controller("", "memory.max", "memory.current", "inactive_file")
_VERSION_1 = _Controller("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_NO_LIMIT = 1 << 60
"""Version 1 expresses "no limit" as a number above this one."""
_SHARE = 0.8


class MemoryBounds:
    """Reads /proc and the control groups of this process."""

    def __init__(self, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc = proc
        self._groups = groups

    def usual_limit(self, held: int = 0) -> int:
        """Return how many bytes a process that holds ``held`` may take if nobody says so.

        They are four fifths of what the host has available, nothing if it does not say, and no more than four fifths of
        what each group may use.
        """
        lines = (self._proc / "meminfo").read_text().splitlines()
        available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
        return min([held + int(available * _SHARE), *(int(limit * _SHARE) for _, limit in self.group_limits())])

    def group_limits(self) -> Iterator[tuple[int, int]]:
        """Yield the bytes that are used and those that are allowed in each group that has a limit."""
        for controller, path in self._memberships():
            root = self._groups / controller.folder
            own = root / path
            # A container sees its own group as the root, though its path may be that on the host.
            for group in (own, *own.parents) if own.is_dir() else (root,):
                if group.is_relative_to(root):
                    limit = _number(group / controller.limit)
                    if limit is not None and 0 < limit < _NO_LIMIT:
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
