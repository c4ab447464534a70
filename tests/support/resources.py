"""The resources of a process, as the kernel reports them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal.v1 import backend_pb2
from tests.support.waiting import wait_until

_COUNTED = (
    "descriptors",
    "mappings",
    "mapped_bytes",
    "prepared_models",
    "executions",
    "bursts",
    "buffers",
    "buffer_bytes",
    "launched",
    "stages",
)


@dataclass(frozen=True)
class Resources:
    """The numbers of descriptors, by what they refer to, and of mappings of memfds."""

    descriptors: dict[str, int]
    memfd_mappings: int

    def within(self, other: Resources, spare: int = 0) -> bool:
        """Return whether no number exceeds the other's by more than ``spare``.

        A thread that waits for its next call may still hold the descriptor of its last one.
        """
        return self.memfd_mappings <= other.memfd_mappings + spare and all(
            count <= other.descriptors.get(kind, 0) + spare for kind, count in self.descriptors.items()
        )


def resources_of(pid: int) -> Resources:
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
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def resident_bytes(pid: int) -> int:
    """Return how many bytes of a process are in RAM."""
    _, resident, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return int(resident) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes(pid: int) -> int:
    """Return how many bytes of a process have been in RAM at most since its start, or since ``forget_peak``."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def forget_peak(pid: int) -> int:
    """Have ``peak_bytes`` begin anew, and return what it begins with."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_bytes(pid)


def counts_of(usage: backend_pb2.GetUsageResponse, *more: str) -> tuple[int, ...]:
    """Return how many objects and bytes a device says it holds for its clients, and ``more`` of its counts."""
    return tuple(getattr(usage, name) for name in (*_COUNTED, *more))


@contextmanager
def everything_given_back(endpoint: Endpoint) -> Iterator[None]:
    """Check that a device process holds no more for its clients after the context than before.

    It may hold less: what clients of an earlier test held may have been on its way back.
    """
    with RemoteDevice(endpoint, "observer") as observer:
        before = counts_of(observer.usage())
        yield
        wait_until(
            lambda: all(now <= then for now, then in zip(counts_of(observer.usage()), before, strict=True)),
            f"everything but {before} is released",
        )
