"""Which processes belong to a server: itself, and those that it has started."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and its descendants, as of now; only the process itself if it has none, or has ended."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            own, parent = _parents(entry.read_text())
        except OSError:  # it has ended in the meantime
            continue
        children[parent].append(own)
    found = [pid]
    for member in found:
        found += children[member]
    return found


def _parents(stat: str) -> tuple[int, int]:
    """A process's id and its parent's. The name between them may contain anything (proc(5))."""
    head, _, rest = stat.rpartition(")")
    return int(head.partition(" ")[0]), int(rest.split()[1])
