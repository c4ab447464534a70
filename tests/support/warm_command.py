"""A command in a fork of a process that has imported it: ``python -m tests.support.warm_command MODULE ARGUMENTS…``.

``tests.support.command`` has it forked, and sends the descriptor for its output over the supervisor's socket. It
becomes the command, with a fork of itself as its zygote: the devices and the framework that it starts are warm as well.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
from functools import partialmethod

from nnhal_hosting import zygote
from nnhal_hosting.supervision import Child
from nnhal_hosting.zygote import Zygote
from nnhal_tools.cli import main as become
from nnhal_tools.up import Testbed

_STDOUT = 1


class _Fork:
    """A fork of this process, as far as the end of a zygote needs it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


def main() -> None:
    module, *arguments, _, supervisor = sys.argv[1:]
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
    if module == "nnhal_tools.cli":
        become()
    else:
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
