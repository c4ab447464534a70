from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PAGES = 4096
COUNT = f"""
import resource, threading

faults = []

def fill():
    # As a request does: buffers of 1 MiB that live together, and are freed together.
    for _ in range(20):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        buffers = [b"x" * (1 << 20) for _ in range({PAGES} // 256)]
        del buffers
        faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

thread = threading.Thread(target=fill)
thread.start()
thread.join()
print(sum(faults[10:]) // 10)
"""
RETURNED = """
import threading
from nnhal_hosting.own_memory import OwnBytes, return_freed_memory
from nnhal_service.allocator import keep_freed_memory

keep_freed_memory()
used = OwnBytes()
before = used()
all_hold, taken = threading.Barrier(4), []

def fill():
    buffer = b"x" * (24 << 20)  # more than 32 MiB would be a mapping, which is never kept
    all_hold.wait()
    taken.append(used() - before)
    all_hold.wait()

threads = [threading.Thread(target=fill) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return_freed_memory()
print(min(taken), used() - before)
"""
KEPT = "from nnhal_service.allocator import keep_freed_memory; keep_freed_memory()\n"


def faults(program: str) -> int:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_memory_that_was_freed_is_used_again_without_page_faults() -> None:
    assert faults(KEPT + COUNT) < PAGES // 10


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_what_any_thread_has_freed_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", RETURNED], capture_output=True, text=True, check=True)
    taken, kept = map(int, done.stdout.split())
    assert taken > 4 * (24 << 20)
    assert kept < 4 << 20
