"""Resources that a device process holds: its own counts, and the kernel's view."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nnhal.remote import RemoteDevice

_COUNTED = (
    "sessions",
    "descriptors",
    "mappings",
    "mapped_bytes",
    "prepared_models",
    "executions",
    "bursts",
    "buffers",
    "buffer_bytes",
    "launched",
)
_PAUSE_SECONDS = 0.05
_MOST_WAITS = 6
"""A device on a busy machine releases one thing after another: it is waited for so many times as long, at most."""


@dataclass(frozen=True)
class HeldResources:
    """The counts that it reports, its descriptors by target, and its mappings of memfds."""

    counts: dict[str, int]
    descriptors: dict[str, int]
    memfd_mappings: int

    def beyond(self, before: HeldResources) -> list[str]:
        """Return what exceeds the earlier ones."""
        more = {
            **{f"usage: {name}": (count, before.counts[name]) for name, count in self.counts.items()},
            **{f"fd: {kind}": (count, before.descriptors.get(kind, 0)) for kind, count in self.descriptors.items()},
            "mappings of memfds": (self.memfd_mappings, before.memfd_mappings),
        }
        return [f"{name}: {now}, was {was}" for name, (now, was) in more.items() if now > was]


def held_resources(device: RemoteDevice) -> HeldResources:
    """Return what a device process holds now. Raises OSError if its /proc entries may not be read."""
    usage = device.usage()
    process = Path(f"/proc/{device.pid}")
    kinds: Counter[str] = Counter()
    for entry in (process / "fd").iterdir():
        try:
            kinds[str(entry.readlink()).partition(":")[0]] += 1
        except FileNotFoundError:  # closed in the meantime
            continue
    return HeldResources(
        {name: getattr(usage, name) for name in _COUNTED},
        dict(kinds),
        (process / "maps").read_text().count("/memfd:"),
    )


def resident_bytes(device: RemoteDevice) -> int:
    """Bytes of a device process in RAM."""
    _, resident, *_ = Path(f"/proc/{device.pid}/statm").read_text().split()
    return int(resident) * os.sysconf("SC_PAGE_SIZE")


def leftovers(device: RemoteDevice, before: HeldResources, seconds: float) -> list[str]:
    """Return what a device still holds beyond ``before``. Waits until nothing is left, or nothing has gone for
    ``seconds``.
    """
    return _until_empty(lambda: held_resources(device).beyond(before), seconds)


def _until_empty(look: Callable[[], list[str]], seconds: float) -> list[str]:
    now = time.monotonic()
    end, latest = now + seconds, now + _MOST_WAITS * seconds
    seen = look()
    while seen and (now := time.monotonic()) < min(end, latest):
        time.sleep(_PAUSE_SECONDS)
        before, seen = seen, look()
        if seen != before:
            end = now + seconds
    return seen
