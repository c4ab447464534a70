"""Processes that are forked from one that has imported what they need, as Android's zygote forks apps.

Most of what a device does before it serves is importing modules. A zygote has imported them, and each process that it
forks shares them, with the memory that they take. ``python -m nnhal_hosting.zygote --socket FD MODULE…`` is a zygote.
It does what it is asked over the socket, a request at a time, and ends when the socket closes. It starts no thread.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from nnhal_hosting.interrupts import interrupts_blocked
from nnhal_hosting.logs import get_logger
from nnhal_hosting.processor_time import ProcessorTime

_log = get_logger(__name__)
_MOST_DESCRIPTORS = 8
_MOST_BYTES = 1 << 17
"""The most bytes of a request: the words of a command line, and an environment."""
_ROOM = " " * 4096
"""An argument of no meaning: what is forked writes its own command line over the zygote's, which must be longer."""
_FIRST_OTHER = 3
"""The first descriptor after standard error."""
_SECONDS = 15.0
"""The time that a zygote may take to answer."""
_LOOK_SECONDS = 0.5
_IMPORTING_SECONDS = 60.0
"""The time that it may take to answer for the first time, when it has imported its modules."""
_ARGUMENTS_START, _STATE = 48, 3
"""Fields of /proc/PID/stat (proc(5)), counted from 1."""
UNKNOWN_STATUS = 256
"""In place of the exit status of a process that has outlived its zygote: the kernel tells it only to the parent."""


class Zygote:
    """Forks processes that have the modules imported. The zygote is started when it is needed, and again if it ended.

    Safe to use from several threads.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """A module that cannot be imported is left to the processes, which then say why."""
        self._modules = modules
        self._lock = threading.Lock()
        self._parent: _Parent | None = None

    def fork(
        self,
        module: str,
        arguments: Sequence[str],
        supervision: int,
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> ForkedProcess:
        """Start ``python -m MODULE ARGUMENTS… --supervisor FD`` with the descriptor, and a pipe as standard error.

        The ``inherited`` descriptors have the same numbers there. It runs in this process's directory. Raises OSError
        if it cannot, also with a new zygote.
        """
        started = {
            "module": module,
            "arguments": arguments,
            "environment": dict(environment),
            "directory": os.getcwd(),  # noqa: PTH109 - a name, not a path to work with
            "numbers": [supervision, *inherited],
        }
        end, stderr = os.pipe()
        said = os.fdopen(end, "rb")
        try:
            parent, answer = self._ask(started, (stderr, supervision, *inherited))
            if "pid" not in answer:
                raise OSError(answer["error"])
            return ForkedProcess(parent, answer["pid"], said)
        except BaseException:
            said.close()
            raise
        finally:
            os.close(stderr)

    def close(self) -> None:
        """End the zygote. What it has forked goes on."""
        with self._lock:
            if self._parent is not None:
                self._parent.end()
            self._parent = None

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> tuple[_Parent, dict[str, Any]]:
        with self._lock:
            if self._parent is not None:
                with contextlib.suppress(OSError):
                    return self._parent, self._parent.ask(request, descriptors)
                _log.warning("the zygote has ended; another takes its place", process_id=self._parent.pid)
            self._parent = _Parent.start(self._modules)
            return self._parent, self._parent.ask(request, descriptors)


class _Parent:
    """One zygote's process, and the supervisor's end of its socket."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._lock = threading.Lock()
        self._socket = connection
        self._patience = _IMPORTING_SECONDS
        self.pid = process.pid
        self.end = weakref.finalize(self, _end, self._socket, process)
        """Ends the process."""

    @classmethod
    def start(cls, modules: Sequence[str]) -> _Parent:
        """Start a zygote, which imports the modules before it answers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", __name__, "--socket", str(theirs.fileno()), "--room", _ROOM, *modules]
            with interrupts_blocked():
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        return cls(ours, process)

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Return the answer. Raises OSError if there is none, and ends the process."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
                self._await_answer()
                answer = self._socket.recv(_MOST_BYTES)
                if not answer:
                    raise OSError("the zygote has ended")
                self._patience = _SECONDS
            except BaseException:  # with an interrupt too: the answer would be taken for that to another request
                self.end()
                raise
        found: dict[str, Any] = json.loads(answer)
        return found

    def _await_answer(self) -> None:
        """Raises TimeoutError if none comes in time, as far as the zygote has had a processor for it."""
        poll, left, time = select.poll(), self._patience, ProcessorTime(self.pid, os.getpid())
        poll.register(self._socket, select.POLLIN)
        while not poll.poll(_LOOK_SECONDS * 1000):
            left -= time.passed()
            if left <= 0:
                raise TimeoutError(f"the zygote has not answered for {self._patience:g} s")


def _end(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    connection.close()
    process.kill()
    process.wait()


class ForkedProcess:
    """A process that a zygote has forked, with what ``subprocess.Popen`` has of one. Safe to use from several threads.

    Its zygote leaves it a zombie until it is waited for, so that its process id is no other's before.
    """

    def __init__(self, parent: _Parent, pid: int, stderr: IO[bytes]) -> None:
        """Raises OSError, and ends the process, if it cannot be watched."""
        self.pid = pid
        self.stderr = stderr
        self._parent = parent
        self._lock = threading.Lock()
        self._status: int | None = None
        try:
            self._handle = os.pidfd_open(pid)
        except OSError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        weakref.finalize(self, os.close, self._handle)

    def poll(self) -> int | None:
        """Return the exit status, as ``Popen`` has it, or UNKNOWN_STATUS; None if the process runs."""
        with self._lock:
            if self._status is None and self._has_ended(0):
                try:
                    self._status = self._parent.ask({"wait": self.pid})["status"]
                except OSError:
                    self._status = UNKNOWN_STATUS
            return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the status. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        self._has_ended(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """Send SIGKILL, if the process has not ended."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, seconds: float | None) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))


def main() -> None:
    """Fork processes until the socket closes; in each, run its module."""
    parser = argparse.ArgumentParser("python -m nnhal_hosting.zygote")
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--room", help=argparse.SUPPRESS)
    parser.add_argument("modules", nargs="*")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the supervisor, which ends its zygote last
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    for module in given.modules:
        with contextlib.suppress(Exception):
            import_module(module)
    gc.collect()
    gc.freeze()  # a collection would write to the pages that the processes share
    fork_for(socket.socket(fileno=given.socket))


def fork_for(supervisor: socket.socket) -> None:
    """Fork processes for whoever has the other end.

    Returns when that is closed, and in each process when it has ended.
    """
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(supervisor, _MOST_BYTES, _MOST_DESCRIPTORS)
        except ConnectionResetError:  # the other end was closed with answers that it has not read
            break
        if not message:
            break
        request = json.loads(message)
        if "wait" in request:
            _answer(supervisor, {"status": _status_of(request["wait"])})
            continue
        try:
            pid = os.fork()
        except OSError as error:
            _answer(supervisor, {"error": str(error)})
        else:
            if pid == 0:
                supervisor.detach()
                _become(request, descriptors)
                break
            _answer(supervisor, {"pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)


def _answer(supervisor: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the supervisor was killed while it waited
        supervisor.send(json.dumps(answer).encode())


def _status_of(pid: int) -> int:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return UNKNOWN_STATUS
    return os.waitstatus_to_exitcode(status)


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Run a module as ``python -m`` does, with the standard descriptors and those that are handed over."""
    module, arguments = request["module"], request["arguments"]
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    stderr, *passed = descriptors
    os.dup2(stderr, sys.stderr.fileno())
    _keep_only(dict(zip(request["numbers"], passed, strict=True)))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    words = [*arguments, "--supervisor", str(request["numbers"][0])]
    _show_command([sys.executable, "-m", module, *words])
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _keep_only(passed: Mapping[int, int]) -> None:
    """Give descriptors the numbers that they have with the supervisor, and close all others but the standard ones."""
    above = max(*passed, *passed.values()) + 1
    moved = {number: fcntl.fcntl(given, fcntl.F_DUPFD, above) for number, given in passed.items()}
    start = _FIRST_OTHER
    for number in sorted(passed):
        os.closerange(start, number)
        os.dup2(moved[number], number)
        start = number + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def _show_command(words: Sequence[str]) -> None:
    """Have /proc/PID/cmdline, and so ``ps`` and ``pgrep``, show these words instead of the zygote's, if it can."""
    start, end = arguments_span(Path("/proc/self/stat").read_text())
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    if start and len(line) <= end - start:
        ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def arguments_span(stat: str) -> tuple[int, int]:
    """Return from where to where a process has its arguments, by its /proc/PID/stat; 0, 0 if that does not say.

    The emulator of another machine (qemu-user) tells fewer fields than the kernel.
    """
    fields = stat.rpartition(")")[2].split()
    span = [int(field) for field in fields[_ARGUMENTS_START - _STATE :][:2]]
    return (span[0], span[1]) if len(span) == 2 else (0, 0)


if __name__ == "__main__":
    main()
