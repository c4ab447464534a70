"""Mapping files that may shrink, although an access to a page that a file no longer has raises SIGBUS.

CPython's own handler for the signal does nothing but write its number to the wakeup descriptor, and the instruction
that faulted is tried again, until a thread that reads the descriptor has replaced the region's pages by anonymous
memory. The thread that faulted must not hold the interpreter's lock, or the other could never run. SIGBUS is therefore
blocked in every thread, so that a fault ends the process at once as it would without a guard, except within
``MemoryGuard.use``: there, guarded memory may be accessed by functions only that release the lock, as ``ctypes`` and
ONNX Runtime do, and never by numpy.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from nnhal.descriptor import Descriptor
from nnhal.errors import general_failure
from nnhal.memory.ashmem import is_tmpfs
from nnhal.memory.mapping import Region, map_at
from nnhal.threads import LastingThread
from nnhal.types import MappableFile

_libc = ctypes.CDLL(None, use_errno=True)
_libc.signal.restype = ctypes.c_void_p
_libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_MAP_NORESERVE = 0x4000  # linux/mman.h

_SIGBUS = frozenset({signal.SIGBUS})
_PIPE_BYTES = 65536
_MOST_BUFFERS = 1024  # of one pwritev
_LATE_FAULTS = 1000
"""Signals after which all pages are probed: most come from faults that a region's replacement has overtaken."""
_INEXPLICABLE_FAULTS = 200_000
"""Signals in a row, about a second of a thread that tries again and again, for which no region can be the reason."""
_FEW_FAULTS = 10
"""Fewer signals at a time do not count: a client may cause them for ever by changing a file's size to and fro."""
_IN_A_ROW_SECONDS = 0.1
_PAUSE_SECONDS = 0.001


class GuardedRegion(Region):
    """A mapped part of a file that may shrink. Once it has, the region is lost, even if the file grows again."""

    __slots__ = ("_descriptor", "_needed", "is_replaced", "lost")

    _descriptor: Descriptor
    _needed: int
    lost: str
    """Why it must no longer be used; empty while it may be."""
    is_replaced: bool
    """True if its pages are no longer those of the file."""

    def __new__(cls, descriptor: Descriptor, length: int, offset: int = 0, writable: bool = True) -> GuardedRegion:
        """Map the memory. Raises OSError or ValueError."""
        self = super().__new__(cls, descriptor, length, offset, writable)
        assert isinstance(self, GuardedRegion)
        self._descriptor = descriptor
        self._needed = offset + length
        self.is_replaced = False
        self.lost = ""
        return self

    def require_intact(self) -> None:
        """Raise GENERAL_FAILURE if the region is lost."""
        if self.lost or self.is_short():
            general_failure(self.lost)

    def is_short(self) -> bool:
        """Return whether the file is too short by now; the region is lost then."""
        size = os.fstat(self._descriptor.fileno()).st_size
        if size < self._needed and not self.lost:
            self.lost = f"a file pool has been truncated: its file has {size} bytes, expected {self._needed}"
        return size < self._needed

    def is_unreachable(self, scratch: int) -> bool:
        """Return whether the kernel cannot provide a page; the region is lost then. It allocates pages of a hole.

        ``scratch`` is the descriptor of a file whose bytes do not matter.
        """
        pages = [self._page(start) for start in range(0, len(self), mmap.PAGESIZE)]
        try:
            for first in range(0, len(pages), _MOST_BUFFERS):
                some = pages[first : first + _MOST_BUFFERS]
                if os.pwritev(scratch, some, 0) < len(some):
                    break
            else:
                return False
        except OSError:
            pass
        self.lost = self.lost or "a file pool cannot be accessed: its file system cannot provide all of its pages"
        return True

    def replace(self) -> None:
        """Replace its pages by anonymous memory, so that accesses go on. Raises OSError."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        map_at(self.address, len(self), mmap.PROT_READ | mmap.PROT_WRITE, flags)
        self.is_replaced = True

    def _page(self, start: int) -> memoryview:
        return memoryview(self)[start : start + 1]


class MemoryGuard:
    """Maps files that may shrink, and keeps the process alive when one does. There is one in a process, for ever."""

    _only: MemoryGuard | None = None

    def __init__(self) -> None:
        """Take over SIGBUS. Raises ValueError outside the main thread, RuntimeError if the process has a guard.

        Threads that were started before must not access guarded memory, and end the process by a fault only late. What
        the wakeup descriptor has been until now receives the signals' numbers as before.
        """
        if MemoryGuard._only is not None:
            raise RuntimeError("the process has a guard already")
        self._lock = threading.Lock()
        self._used: list[GuardedRegion] = []
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._wake, True)
        try:
            self._next_wake = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        except ValueError:
            os.close(self._wake)
            os.close(wake)
            raise
        signal.signal(signal.SIGBUS, _ignore)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGBUS)
        MemoryGuard._only = self
        self._since_probe = self._unexplained = 0
        self._last_unexplained = 0.0
        self._ended = False
        self._scratch = os.memfd_create("nnhal-probe", os.MFD_CLOEXEC)
        LastingThread(self._serve, "guard").start()

    def map(self, memory: MappableFile, writable: bool) -> GuardedRegion | None:
        """Map a file. Returns None unless it is one of a tmpfs. Raises OSError or ValueError.

        The pages of other files can fail and block for reasons of their own.
        """
        if not is_tmpfs(memory.descriptor):
            return None
        return GuardedRegion(memory.descriptor, memory.length, memory.offset, writable)

    @contextlib.contextmanager
    def use(self, regions: Sequence[GuardedRegion]) -> Iterator[None]:
        """Let this thread access regions by functions that release the interpreter's lock.

        Raises GENERAL_FAILURE if a region is lost, before or meanwhile: what was read from it is undefined then.
        """
        for region in regions:
            region.require_intact()
        with self._lock:
            self._used.extend(regions)
        try:
            with faults_admitted():
                yield
        finally:
            with self._lock:
                for region in regions:
                    self._used.remove(region)
            for region in regions:
                region.require_intact()

    def _serve(self) -> None:
        """Answer faults, and pass on the numbers of other signals."""
        while not self._ended:
            arrived = os.read(self._wake, _PIPE_BYTES)
            if self._next_wake >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._next_wake, bytes(set(arrived)))
            faults = arrived.count(signal.SIGBUS)
            try:
                if faults and self._repaired(faults):
                    self._unexplained = 0
                elif faults:
                    self._note_unexplained(faults)
            except Exception as error:
                self._end(str(error))

    def _repaired(self, faults: int) -> bool:
        """Replace the regions that are the reason of a fault; returns whether there are any. Raises OSError."""
        with self._lock:
            used = [region for region in self._used if not region.is_replaced]  # they stay mapped while they are here
        lost = [region for region in used if region.is_short()]
        self._since_probe += faults
        if not lost and self._since_probe > _LATE_FAULTS:
            self._since_probe = 0
            lost = [region for region in used if region.is_unreachable(self._scratch)]
        for region in lost:
            region.replace()
        return bool(lost)

    def _note_unexplained(self, faults: int) -> None:
        """Wait for a moment, and end the process if no region can be the reason of a fault."""
        now = time.monotonic()
        if now - self._last_unexplained > _IN_A_ROW_SECONDS:
            self._unexplained = 0
        self._last_unexplained = now
        if faults > _FEW_FAULTS:
            self._unexplained += faults
        if self._unexplained > _INEXPLICABLE_FAULTS:
            self._end("no region that is in use explains it")
        time.sleep(_PAUSE_SECONDS)

    def _end(self, reason: str) -> None:
        """Let a fault end the process with SIGBUS, as without a guard."""
        self._ended = True
        print(f"SIGBUS: {reason}", file=sys.stderr, flush=True)
        _libc.signal(signal.SIGBUS, None)


@contextlib.contextmanager
def faults_admitted() -> Iterator[None]:
    """Unblock SIGBUS in this thread and in threads that it starts meanwhile, as a library that starts its own does."""
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGBUS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _ignore(*_: object) -> None:
    """Be the handler that Python calls once its main thread runs: the fault has been answered by then."""
