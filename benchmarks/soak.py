"""``python -m benchmarks.soak [SECONDS]``: what misbehaving clients cost the others.

A framework over cpu_acc and cpu_ref, and four clients: gRPC, gRPC with shared memory, HTTP and native. It measures
their capacity together, then 80 % of it alone, then the same beside clients that die, send garbage, shorten their
shared memory, cancel, and load and unload models, then alone again. The exit status is 1 if a p99 is more than twice
its quiet value.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import soak
from tests.support.model_server import devices, model_server
from tests.support.resources import resident_bytes, resources_of
from tests.support.served_models import write_models

_LOAD = 0.8
_LIMIT = 2.0
_QUIET_SECONDS = 120.0
"""At most."""
_PAUSE = 1.0
"""Seconds between their actions: most of these start processes, which costs this host time too."""


def main() -> int:
    """Print one line for each client in each part, and the growth of the processes."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        devices() as over,
        model_server(over, write_models(Path(folder)), "--allow-client-shm") as served,
    ):
        print(f"{'':26}{'client':16}{'requests/s':>11}{'p50 ms':>9}{'p99 ms':>9}", flush=True)
        soak.run(served, min(seconds, 5.0))  # caches are filled
        capacity = soak.run(served, min(seconds, 20.0))
        _show("as fast as they can", capacity)
        rates = {kind: _LOAD * figures.rate for kind, figures in capacity.items()}
        quiet = soak.run(served, min(seconds, _QUIET_SECONDS), rates)
        _show(f"at {_LOAD:.0%} of that", quiet)
        pids = {"framework": served.pid, **over.pids}
        before = {name: _held(pid) for name, pid in pids.items()}
        with soak.misbehaving(served, _PAUSE):
            loud = soak.run(served, seconds, rates)
        _show("beside bad clients", loud)
        _show("alone again", soak.run(served, min(seconds, _QUIET_SECONDS), rates))
        for name, pid in pids.items():
            then, now = before[name], _held(pid)
            print(f"{name}: {(now[0] - then[0]) / 2**20:+.1f} MiB, {now[1] - then[1]:+d} descriptors")
    worst = soak.slowest(loud, quiet)
    print(f"p99 is at most {worst:.2f} times its quiet value (limit {_LIMIT})")
    return int(worst > _LIMIT)


def _held(pid: int) -> tuple[int, int]:
    """Resident bytes, and descriptors."""
    return resident_bytes(pid), sum(resources_of(pid).descriptors.values())


def _show(label: str, found: Mapping[str, soak.Figures]) -> None:
    for kind, figures in found.items():
        print(f"{label:26}{kind:16}{figures.rate:>11.0f}{figures.p50:>9.2f}{figures.p99:>9.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
