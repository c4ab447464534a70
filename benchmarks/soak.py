"""``python -m benchmarks.soak [SECONDS]``: what clients that misbehave cost those that behave.

A framework over cpu_acc and cpu_ref, and clients of gRPC, all on this host: the capacity, then 80 % of it alone, then
the same beside clients that die, send garbage, shorten their shared memory, give up, and load and unload models.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.front_door import devices, front_door
from tests.support.resources import resident_bytes
from tests.support.served_models import write_models
from tests.support.soak import Figures, misbehaving, run

_LOAD = 0.8
_PAUSE = 1.0
"""Seconds: most of what bad clients do is to start processes, of which this host has the cost too."""


def main() -> None:
    """Print one line for each part, and what the processes have grown by."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        devices() as over,
        front_door(over, write_models(Path(folder)), "--allow-client-shm") as served,
    ):
        print(f"{'clients':28}{'requests/s':>11}{'p50 ms':>9}{'p99 ms':>9}")
        run(served, min(seconds, 5.0))  # what is made once is there
        capacity = run(served, min(seconds, 10.0))
        _show("as fast as they can", capacity)
        quiet = run(served, seconds, _LOAD * capacity.rate)
        _show(f"at {_LOAD:.0%} of that", quiet)
        pids = {"framework": served.pid, **over.pids}
        before = {name: resident_bytes(pid) for name, pid in pids.items()}
        with misbehaving(served, _PAUSE):
            loud = run(served, seconds, _LOAD * capacity.rate)
        _show("the same beside bad ones", loud)
        print(f"p99 is {loud.p99 / quiet.p99:.1f} times its quiet value")
        for name, pid in pids.items():
            print(f"{name} grew by {(resident_bytes(pid) - before[name]) / 2**20:+.1f} MiB")


def _show(label: str, figures: Figures) -> None:
    print(f"{label:28}{figures.rate:>11.0f}{figures.p50:>9.2f}{figures.p99:>9.2f}")


if __name__ == "__main__":
    main()
