"""A file shrinks while it is mapped. The process that maps it is a child, since a fault may end it."""

from __future__ import annotations

import signal
import subprocess
import sys

HEADER = """
import ctypes, os, signal, sys, threading
import numpy as np
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.memory import FilePool, MemoryGuard, GuardedPool, faults_admitted, map_file, open_pool

SIZE = 4 << 20
PAGES = SIZE // 4096

def shared(size=SIZE):
    descriptor = Descriptor(os.memfd_create("test", os.MFD_CLOEXEC))
    os.ftruncate(descriptor.fileno(), size)
    return map_file(descriptor, size)

def mapped(memory, guard):
    pool = open_pool(memory, True, guard)
    assert isinstance(pool, GuardedPool)
    return pool

def copy(pool, size=SIZE):
    # Copy from the pool without the interpreter's lock.
    target = np.full(size, 1, np.uint8)
    ctypes.memmove(target.ctypes.data, pool.view(0, size).ctypes.data, size)
    return target

def refused(work):
    try:
        work()
    except HalError as error:
        return error.message
    raise AssertionError("it was not refused")

def copied_while_truncated(guard, pool, memory, size=0):
    def work():
        with guard.use([pool.region]):
            os.ftruncate(memory.descriptor.fileno(), size)
            copied.append(copy(pool))
    copied = []
    return refused(work), copied[0]
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEADER + program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def succeed(program: str) -> None:
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_copy_from_a_file_that_shrinks_meanwhile_ends_and_is_refused() -> None:
    succeed("""
guard, memory = MemoryGuard(), shared()
pool = mapped(memory, guard)
pool.write(0, np.full(SIZE, 7, np.uint8))
with guard.use([pool.region]):
    assert (copy(pool) == 7).all()
message, copied = copied_while_truncated(guard, pool, memory, 4096)
assert message == f"a file pool has been truncated: its file has 4096 bytes, expected {SIZE}", message
assert (copied[4096:] == 0).all()
""")


def test_a_region_stays_lost_when_its_file_grows_again_and_another_one_of_it_is_not() -> None:
    succeed("""
guard, memory = MemoryGuard(), shared()
pool = mapped(memory, guard)
message, _ = copied_while_truncated(guard, pool, memory)
os.ftruncate(memory.descriptor.fileno(), SIZE)
assert refused(lambda: guard.use([pool.region]).__enter__()) == message
again = mapped(memory, guard)
again.write(0, np.full(SIZE, 3, np.uint8))
with guard.use([again.region]):
    assert (copy(again) == 3).all()
""")


def test_a_truncation_that_no_access_has_met_is_noticed_at_the_end_of_the_use() -> None:
    succeed("""
guard, memory = MemoryGuard(), shared()
pool = mapped(memory, guard)
def work():
    with guard.use([pool.region]):
        os.ftruncate(memory.descriptor.fileno(), SIZE - 1)
assert "truncated" in refused(work)
""")


def test_threads_that_use_other_regions_or_the_same_go_on() -> None:
    succeed("""
from concurrent.futures import ThreadPoolExecutor
guard, memory, other = MemoryGuard(), shared(), shared()
pool, spared = mapped(memory, guard), mapped(other, guard)
spared.write(0, np.full(SIZE, 9, np.uint8))
begun = threading.Barrier(4)
def use(region):
    with guard.use([region.region]):
        begun.wait()
        if region is pool:
            os.ftruncate(memory.descriptor.fileno(), 0)
        return [int(copy(region).sum()) for _ in range(20)]
with ThreadPoolExecutor(4) as threads:
    lost = [threads.submit(use, pool) for _ in range(2)]
    kept = [threads.submit(use, spared) for _ in range(2)]
    assert all("truncated" in refused(work.result) for work in lost)
    assert all(work.result() == [9 * SIZE] * 20 for work in kept)
""")


def test_threads_that_a_library_starts_while_faults_are_admitted_are_guarded() -> None:
    succeed("""
guard, memory = MemoryGuard(), shared()
pool = mapped(memory, guard)
go = threading.Event()
def work():
    go.wait()
    copy(pool)
with faults_admitted():
    thread = threading.Thread(target=work)
    thread.start()
def use():
    with guard.use([pool.region]):
        os.ftruncate(memory.descriptor.fileno(), 0)
        go.set()
        thread.join()
assert "truncated" in refused(use)
""")


def test_a_page_that_a_full_file_system_cannot_provide_is_a_loss() -> None:
    """A fault that no short file explains, as with holes in a full tmpfs; here an unreadable page stands in for it."""
    succeed("""
import mmap
guard, memory, other = MemoryGuard(), shared(), shared()
pool, spared = mapped(memory, guard), mapped(other, guard)
spared.write(0, np.full(SIZE, 9, np.uint8))
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
short = os.memfd_create("short")
address = pool.view(0, SIZE).ctypes.data
libc.mmap(address, SIZE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | 0x10, short, 0)
def work():
    with guard.use([pool.region, spared.region]):
        copy(pool)
assert refused(work) == "a file pool cannot be accessed: its file system cannot provide all of its pages"
assert refused(work) == "a file pool cannot be accessed: its file system cannot provide all of its pages"
with guard.use([spared.region]):
    assert (copy(spared) == 9).all()
""")


SHORT_MAPPING = """
import mmap
def fault():
    descriptor = os.memfd_create("short")
    os.ftruncate(descriptor, 4096)
    short = mmap.mmap(descriptor, 4096)
    os.ftruncate(descriptor, 0)
    copy_from = np.frombuffer(short, np.uint8)
    ctypes.memmove(np.empty(4096, np.uint8).ctypes.data, copy_from.ctypes.data, 4096)
"""


def test_a_fault_elsewhere_ends_the_process_as_it_would_without_a_guard() -> None:
    assert run(SHORT_MAPPING + "MemoryGuard()\nfault()").returncode == -signal.SIGBUS


def test_a_fault_that_no_region_explains_ends_the_process_in_the_end() -> None:
    done = run(SHORT_MAPPING + "guard = MemoryGuard()\nwith guard.use([mapped(shared(), guard).region]):\n    fault()")
    assert (done.returncode, done.stderr) == (-signal.SIGBUS, "SIGBUS: no region that is in use explains it\n")


def test_a_process_has_one_guard_that_its_main_thread_makes() -> None:
    succeed("""
def make():
    try:
        MemoryGuard()
    except (RuntimeError, ValueError) as error:
        said.append(type(error))
said = []
count = len(os.listdir("/proc/self/fd"))
thread = threading.Thread(target=make)
thread.start()
thread.join()
assert len(os.listdir("/proc/self/fd")) == count
MemoryGuard()
make()
assert said == [ValueError, RuntimeError], said
""")


def test_other_signals_wake_whom_they_woke_before() -> None:
    succeed("""
reading, writing = os.pipe2(os.O_NONBLOCK)
os.set_blocking(reading, True)
signal.set_wakeup_fd(writing)
signal.signal(signal.SIGUSR1, lambda *_: None)
MemoryGuard()
os.kill(os.getpid(), signal.SIGUSR1)
assert os.read(reading, 100) == bytes([signal.SIGUSR1])
""")


def test_files_of_a_tmpfs_are_mapped() -> None:
    succeed("""
guard = MemoryGuard()
memory = map_file(shared(100).descriptor, 50, 20)
pool = mapped(memory, guard)
pool.write(0, np.arange(50, dtype=np.uint8))
assert os.pread(memory.descriptor.fileno(), 50, 20) == pool.view(0, 50).tobytes() == bytes(range(50))
""")


def test_other_files_and_files_that_cannot_be_mapped_are_read_and_written() -> None:
    succeed("""
guard = MemoryGuard()
write_only = os.open(f"/proc/self/fd/{os.memfd_create('test')}", os.O_WRONLY)
for descriptor in (os.open("/proc/self/status", os.O_RDONLY), write_only):
    pool = open_pool(map_file(Descriptor(descriptor), 50), True, guard)
    assert isinstance(pool, FilePool) and not isinstance(pool, GuardedPool)
""")
