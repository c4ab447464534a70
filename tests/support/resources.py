"""What a process holds, as the kernel sees it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Resources:
    """Descriptors by what they refer to, and mappings of memfds."""

    descriptors: dict[str, int]
    memfd_mappings: int

    def within(self, other: Resources, spare: int = 0) -> bool:
        """Whether there is no more of anything than in another, or no more than so many ``spare`` ones.

        A thread that waits for its next call may still hold what its last one was about.
        """
        return self.memfd_mappings <= other.memfd_mappings + spare and all(
            count <= other.descriptors.get(kind, 0) + spare for kind, count in self.descriptors.items()
        )


def resources_of(pid: int) -> Resources:
    """What a process holds at this moment."""
    process = Path("/proc") / str(pid)
    targets: Counter[str] = Counter()
    for entry in (process / "fd").iterdir():
        try:
            targets[str(entry.readlink()).partition(":")[0]] += 1
        except FileNotFoundError:  # closed in the meantime
            continue
    maps = (process / "maps").read_text()
    return Resources(dict(targets), maps.count("/memfd:"))


def threads_of(pid: int) -> int:
    """How many threads a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def resident_bytes(pid: int) -> int:
    """How much memory of a process is in RAM."""
    _, resident, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return int(resident) * os.sysconf("SC_PAGE_SIZE")
