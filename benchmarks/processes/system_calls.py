"""Counting the system calls of other processes, which slows them down many times over."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from benchmarks.processes import ptrace
from benchmarks.processes.system_call_names import name_of
from benchmarks.processes.threads import role_of

_POLL_SECONDS = 0.001
_AGAIN_SECONDS = 0.1


class TracingRefusedError(OSError):
    """This machine does not let the process trace others. The message says why."""


@dataclass(frozen=True, slots=True)
class SystemCalls:
    """Counts by process, role of the thread and name of the call. They are complete when ``counting`` has ended."""

    counts: Counter[tuple[int, str, str]] = field(default_factory=Counter)

    def of_role(self, pid: int, role: str) -> int:
        """All calls of a process's threads of one role."""
        return sum(count for (own, kind, _), count in self.counts.items() if (own, kind) == (pid, role))


@contextmanager
def counting(pids: Sequence[int]) -> Iterator[SystemCalls]:
    """Count the calls of these processes, with threads that they start, until the context ends.

    Afterwards they run on as before. Raises TracingRefusedError.
    """
    tracer = _Tracer(pids)
    tracer.start()
    try:
        yield tracer.calls
    finally:
        tracer.stop()


class _Tracer:
    """A thread that traces. The kernel lets only the thread that attached to another one control it and wait for it.

    It waits for no other children of this process. If it should end early, the kernel detaches what it has traced.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self.calls = SystemCalls()
        self._counts: Counter[tuple[int, int]] = Counter()
        self._pids = pids
        self._threads: dict[int, tuple[int, str]] = {}
        self._attached: SimpleQueue[OSError | None] = SimpleQueue()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="tracer", daemon=True)

    def start(self) -> None:
        """Return when every thread is traced. Raises TracingRefusedError."""
        self._thread.start()
        error = self._attached.get()
        if error is not None:
            self._thread.join()
            raise TracingRefusedError(f"ptrace is refused: {error.strerror}") from error

    def stop(self) -> None:
        """Return when no thread is traced any more and the calls are counted."""
        self._ending = True
        while self._thread.is_alive():
            for pid in self._pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGURG)  # it does nothing to the process, but wakes the tracer
            self._thread.join(_AGAIN_SECONDS)

    def _run(self) -> None:
        try:
            for pid in self._pids:
                self._attach(pid)
        except OSError as error:
            self._attached.put(error)
            return
        self._attached.put(None)
        self._trace()
        for (tid, number), count in self._counts.items():
            if tid in self._threads:
                self.calls.counts[*self._threads[tid], name_of(number)] += count

    def _trace(self) -> None:
        while not self._ending and (stop := ptrace.next_stop()) is not None:
            self._stopped(*stop)
        while (stop := ptrace.next_stop(wait=False)) is not None:
            if stop[0]:
                self._stopped(*stop)
                continue
            for tid in list(self._threads):
                self._learn(tid)
                self._free(tid)
            time.sleep(_POLL_SECONDS)

    def _attach(self, pid: int) -> None:
        """Trace every thread of a process; those that start meanwhile are traced by their starter, or found next."""
        known: set[int] = set()
        while found := {int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - known:
            for tid in found:
                try:
                    ptrace.seize(tid)
                except OSError:
                    if _needs_tracing(tid):
                        raise
                with suppress(OSError):  # it has ended, or stops anyway
                    ptrace.interrupt(tid)
                self._learn(tid)
            known |= found

    def _free(self, tid: int) -> None:
        """Detach a thread, or stop it so that this is possible: any wait of this process may have taken its stop."""
        try:
            ptrace.detach(tid)
        except OSError:
            with suppress(OSError):  # it has ended, or is detached
                ptrace.interrupt(tid)

    def _stopped(self, tid: int, status: int) -> None:
        """Count what a thread does, and let it run on."""
        if os.WIFSTOPPED(status):
            with suppress(OSError):  # it has been killed in the meantime
                self._let_run(tid, status)

    def _let_run(self, tid: int, status: int) -> None:
        reason, event = os.WSTOPSIG(status), status >> 16
        is_call = reason == ptrace.SYSTEM_CALL_STOP
        if event:
            self._learn(tid)
        elif is_call and (number := ptrace.entered_call(tid)) is not None:
            self._counts[tid, number] += 1
        # A process that ends untraced leaves its status to its parent.
        let_run = ptrace.detach if self._ending or event == ptrace.EXIT_EVENT else ptrace.resume
        let_run(tid, 0 if is_call or event else reason)

    def _learn(self, tid: int) -> None:
        """Note the process and the role of a thread. Its name is that of its starter until it has one of its own."""
        with suppress(OSError):  # it has ended
            pid = int(_status(tid, "Tgid"))
            self._threads[tid] = pid, role_of(Path(f"/proc/{pid}/task/{tid}"), pid)


def _needs_tracing(tid: int) -> bool:
    """Whether a thread lives and is not traced by the calling thread."""
    try:
        return int(_status(tid, "TracerPid")) != threading.get_native_id()
    except OSError:
        return False


def _status(tid: int, name: str) -> str:
    return Path(f"/proc/{tid}/status").read_text().partition(f"\n{name}:")[2].split()[0]
