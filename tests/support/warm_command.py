"""The ``nnhal`` command in a fork of a process that has imported it: a tenth of the time that a fresh one takes.

``run`` is what a test calls. Forked for it, ``python -m tests.support.warm_command ARGUMENTS…`` becomes the command,
with a fork of itself as its zygote, so that the devices and the framework that it starts are warm as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path
from typing import IO, Any

from nnhal_hosting import zygote
from nnhal_hosting.supervision import Child
from nnhal_hosting.zygote import Zygote
from nnhal_tools.cli.app import COMMANDS
from nnhal_tools.up import Testbed
from tests.support.processes import WARM_MODULES

_ROOT = Path(__file__).parents[2]
_STDOUT = 1


class _Commands(Zygote):
    """Forks commands. It starts where this package can be imported, whatever directory a test is in."""

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int]) -> Any:
        with contextlib.chdir(_ROOT) if self._parent is None else contextlib.nullcontext():
            return super()._ask(request, descriptors)


_ZYGOTE = _Commands([*WARM_MODULES, __name__, *sorted({found.target.partition(":")[0] for found in COMMANDS.values()})])


def run(arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run the command as ``subprocess.run`` does. Raises TimeoutExpired, and ends it."""
    ours, theirs = socket.socketpair()
    end, stdout = os.pipe()
    with ours, theirs, os.fdopen(end, "rb") as said:
        socket.send_fds(ours, [b"1"], [stdout])
        os.close(stdout)
        process = _ZYGOTE.fork(__name__, arguments, theirs.fileno(), os.environ)
        ours.close()
        theirs.close()
        with process.stderr as complained:
            out, err = _Reader(said), _Reader(complained)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                texts = out.text(), err.text()
    return subprocess.CompletedProcess([*arguments], status, *texts)


class _Reader:
    """Reads a pipe to its end, in a thread of its own."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._read: list[bytes] = []
        self._thread = threading.Thread(target=lambda: self._read.append(pipe.read()))
        self._thread.start()

    def text(self) -> str:
        self._thread.join()
        return b"".join(self._read).decode()


class _Fork:
    """A fork of this process, as far as the end of a zygote needs it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


def main() -> None:
    """Become the command."""
    *arguments, _, supervisor = sys.argv[1:]
    with socket.socket(fileno=int(supervisor)) as test:
        _, (stdout,), _, _ = socket.recv_fds(test, 1, 1)
    os.dup2(stdout, _STDOUT)
    os.close(stdout)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        zygote.fork_for(theirs)
        return
    theirs.close()
    own = Zygote([])
    own._parent = zygote._Parent(ours, _Fork(pid))  # type: ignore[arg-type]
    for kind in (Child, Testbed):
        kind.__init__ = partialmethod(kind.__init__, zygote=own)  # type: ignore[method-assign, assignment]
    sys.argv = ["-c", *arguments]
    from nnhal_tools.cli import main as become

    become()


if __name__ == "__main__":
    main()
