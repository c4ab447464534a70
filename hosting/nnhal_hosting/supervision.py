"""Starting nnhal's processes, waiting until they serve, and ending them.

A supervised process inherits one end of a socket pair. It writes a byte when it serves, and ends when the other end
closes, so that it never outlives its supervisor.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from nnhal.errors import NnhalError

_READY = b"R"
_PIPE_BYTES = 65536
_STOP_SECONDS = 10.0


class StartError(NnhalError):
    """A process that was started ended, or did not serve in time. The message holds its last output."""


class Supervision:
    """The supervised process's side. Without a supervisor, only signals end the process."""

    def __init__(self, fd: int | None) -> None:
        self._socket = socket.socket(fileno=fd) if fd is not None else None
        self._wake, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake)
        self._stopping = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def ready(self) -> None:
        """Tell the supervisor that the process serves."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the supervisor has ended; wait() will see it
                self._socket.send(_READY)

    def wait(self) -> None:
        """Sleep until SIGTERM or SIGINT arrives, or the supervisor ends."""
        wakers: list[int] = [self._wake]
        if self._socket is not None:
            wakers.append(self._socket.fileno())
        while not self._stopping:
            readable, _, _ = select.select(wakers, [], [])
            if self._wake not in readable:
                return
            os.read(self._wake, _PIPE_BYTES)  # other signals wake it too; their handlers have run when this returns

    def _stop(self, *_: object) -> None:
        self._stopping = True


def add_supervision_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a supervisor hands over its socket."""
    parser.add_argument("--supervisor", type=int, metavar="FD", help=argparse.SUPPRESS)


class Child:
    """A supervised process: ``python -m MODULE ARGUMENTS…``. It ends when this object is stopped or collected."""

    def __init__(
        self, module: str, arguments: Sequence[str], stderr: int | None = None, inherited: Sequence[int] = ()
    ) -> None:
        """Start the process, which inherits the descriptors of these numbers. Raises OSError."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments, "--supervisor", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE if stderr is None else stderr,
                pass_fds=[theirs.fileno(), *inherited],
            )
        self._said: list[str] = []
        self._reader: threading.Thread | None = None
        if self.process.stderr is not None:
            self._reader = threading.Thread(target=self._read, name=f"stderr-{self.process.pid}", daemon=True)
            self._reader.start()
        self.name = " ".join([module, *arguments])

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Wait until the process serves. Raises StartError if it ends instead, or does not serve within ``seconds``."""
        self._socket.settimeout(seconds)
        try:
            said = self._socket.recv(1)
        except TimeoutError:
            self.stop()
            raise StartError(f"{self.name} did not serve within {seconds:.0f} s{self._last_words()}") from None
        except OSError:
            said = b""
        if said != _READY:
            self.process.wait()
            raise StartError(f"{self.name} ended with status {self.process.returncode}{self._last_words()}")

    def stop(self, seconds: float = _STOP_SECONDS) -> int:
        """Ask the process to end, kill it after ``seconds``, and return its exit status."""
        self._socket.close()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self._reader is not None:
            self._reader.join()
        return status

    def said(self) -> str:
        """Return the last lines that the process wrote to standard error."""
        return "".join(self._said[-20:])

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace")
                sys.stderr.write(text)
                self._said.append(text)
                del self._said[:-100]

    def _last_words(self) -> str:
        if self._reader is not None and self.process.poll() is not None:
            self._reader.join()
        said = self.said().strip()
        return f": {said}" if said else ""


def stop_all(children: Sequence[Child]) -> None:
    """Ask all processes to end, last first, and then wait for each."""
    for child in reversed(children):
        child._socket.close()
    deadline = time.monotonic() + _STOP_SECONDS
    for child in reversed(children):
        child.stop(max(0.1, deadline - time.monotonic()))
