"""``python -m benchmarks.shrinking [SECONDS] [DIRECTORY]``: clients shorten files in which cpu_acc executes.

Two sessions execute an addition of 16 MiB over and over in files of DIRECTORY (/dev/shm) and meanwhile shorten,
lengthen, perforate, overwrite and unlink them at random. Three others check every result: one over a file there that
is left alone, one over ashmem, and one with small tensors. It fails if one of these meets an error.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem, map_file
from nnhal.remote import RemoteDevice
from nnhal.types import Memory
from tests.support.additions import Addition, addition_model
from tests.support.processes import device_process
from tests.support.resources import resident_bytes, resources_of, threads_of
from tests.support.shrinking import Attacker
from tests.support.waiting import settled

_LARGE = 4 << 20
_SMALL = 16
_ATTACKERS = 2


class Bystander:
    """A session that checks its results, and measures its executions."""

    def __init__(self, name: str, endpoint: Endpoint, elements: int, make: Callable[[int], Memory]) -> None:
        self.name = name
        self._endpoint = endpoint
        self._elements = elements
        self._make = make
        self.times: list[float] = []

    def check(self, ending: threading.Event) -> None:
        """Go on until ``ending`` is set. Raises AssertionError for a wrong result."""
        with RemoteDevice(self._endpoint, self.name) as device:
            addition = Addition(self._make(3 * 4 * self._elements), self._elements)
            prepared = device.prepare_model(addition_model(self._elements))
            execution = prepared.create_reusable_execution(addition.request)
            burst = prepared.configure_execution_burst()

            def run() -> None:
                started = time.perf_counter()
                burst.run(execution)
                self.times.append(time.perf_counter() - started)

            while not ending.is_set():
                addition.check(run, len(self.times) % 1000, 1)


def main() -> int:
    """Print what was done, how executions ended, and what the device process holds more than before."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    directory = Path(sys.argv[2] if len(sys.argv) > 2 else "/dev/shm")

    def untouched(size: int) -> Memory:
        descriptor = Descriptor(os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600))
        os.posix_fallocate(descriptor.fileno(), 0, size)
        return map_file(descriptor, size)

    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        device_process("cpu_acc", Path(folder), "--workers", "4") as (child, endpoint),
    ):
        bystanders = [
            Bystander("16 MiB, a file", endpoint, _LARGE, untouched),
            Bystander("16 MiB, ashmem", endpoint, _LARGE, create_ashmem),
            Bystander("small, ashmem", endpoint, _SMALL, create_ashmem),
        ]
        attackers = [Attacker(endpoint, directory, _LARGE, seed) for seed in range(_ATTACKERS)]
        _run([other.check for other in bystanders], min(seconds, 5.0))
        before = settled(lambda: _held(child.pid))
        _show(bystanders, "alone")
        _run([*(other.check for other in bystanders), *(attacker.attack for attacker in attackers)], seconds)
        _show(bystanders, "beside attackers")
        for what in ("deeds", "outcomes"):
            counted = sum((getattr(attacker, what) for attacker in attackers), Counter[str]())
            print(f"{what}: " + ", ".join(f"{count} {name}" for name, count in counted.most_common()))
        for name, now in settled(lambda: _held(child.pid)).items():
            print(f"{name}: {now - before[name]:+d}")
    return 0


def _run(tasks: list[Callable[[threading.Event], None]], seconds: float) -> None:
    """Run tasks side by side for a time, or until one fails; raises its error."""
    ending = threading.Event()
    with ThreadPoolExecutor(len(tasks)) as pool:
        work = [pool.submit(task, ending) for task in tasks]
        try:
            wait(work, seconds, return_when="FIRST_EXCEPTION")
        finally:
            ending.set()
        for one in work:
            one.result()


def _held(pid: int) -> dict[str, int]:
    held = resources_of(pid)
    return {
        "MiB": resident_bytes(pid) >> 20,
        "descriptors": sum(held.descriptors.values()),
        "threads": threads_of(pid),
    }


def _show(bystanders: list[Bystander], label: str) -> None:
    for other in bystanders:
        times = sorted(other.times)
        p50, p99 = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
        print(f"{label:18}{other.name:16}{len(times):>8} runs{p50:>9.2f} ms p50{p99:>9.2f} ms p99", flush=True)
        other.times.clear()


if __name__ == "__main__":
    sys.exit(main())
