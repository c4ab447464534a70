"""A supervised process of any program: a device that somebody else has written, in whatever language.

It gets what nnhal's own processes get (see ``supervision``): one end of a socket pair with its admin key, at which it
says that it serves and works. A program that knows nothing of it serves when its device answers, and ends on SIGTERM.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal_hosting.link_server import remove_stale_socket
from nnhal_hosting.service_manager import watchdog_variables
from nnhal_hosting.supervision import HANG_SECONDS, READY, Child, LaunchedProcess, StartError, awaited

ENDPOINT, NAME, SUPERVISOR = "{endpoint}", "{name}", "{supervisor}"
"""What words of a command may have in them: the device's directory, its name, and the number of its descriptor."""
_VARIABLES = {ENDPOINT: "NNHAL_ENDPOINT", NAME: "NNHAL_NAME", SUPERVISOR: "NNHAL_SUPERVISOR"}
_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 2.0
_CLIENT_NAME = "nnhal-supervisor"
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): sys.exit()
try: os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error: sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""
"""Becomes a command, to which the kernel sends SIGKILL when its parent dies (PR_SET_PDEATHSIG is 1)."""


class ForeignChild(Child):
    """The process of a command that serves a device."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        endpoint: Endpoint,
        admin_key: str = "",
        heard: Callable[[str], None] | None = None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        """Start the command, with its directory, its name and its descriptor in its words and its environment.

        Each line of its standard output and standard error is heard. It hangs only if it has ever given a sign of life.
        Raises OSError, also if another process serves at the endpoint; ValueError for a bad directory or key.
        """
        self.endpoint = endpoint
        endpoint.create("--directory")
        remove_stale_socket(endpoint.rpc, socket.SOCK_STREAM)
        remove_stale_socket(endpoint.link, socket.SOCK_SEQPACKET)
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(2, "no such program, or it may not be executed", command[0])

        def launch(theirs: int) -> LaunchedProcess:
            values = {ENDPOINT: str(endpoint.directory), NAME: name, SUPERVISOR: str(theirs)}
            variables = {_VARIABLES[place]: value for place, value in values.items()}
            process = _launcher().submit(
                subprocess.Popen[bytes],
                [sys.executable, "-I", "-S", "-c", _DIES_WITH_PARENT, str(os.getpid()), *_filled(command, values)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                env={**os.environ, **variables, **watchdog_variables(hang_seconds)},
            )
            started = process.result()
            return LaunchedProcess(started, started.stdout)

        self._gives_signs = False
        self._launch(tuple(command), launch, admin_key, heard, hang_seconds)

    def wait_until_ready(self, seconds: float = 60.0, interrupt: int | None = None) -> None:
        """Wait until the process says that it serves, or a client can ask its device for its version.

        Raises StartError as that of ``Child``.
        """
        left, its_time = seconds, self._its_time()
        listened = [self._socket.fileno()]
        why = ""
        while left > 0:
            readable = awaited([self._handle, *listened], interrupt, _LOOK_SECONDS)
            if readable is not None and not readable:
                raise StartError(f"{self.name} was to end before it served")
            if readable and self._handle in readable:
                raise self._start_error()
            if readable:
                said = self._received(1)
                if said == READY:
                    return
                if not said:  # it does without
                    listened.clear()
            why = _trouble(self.endpoint)
            if not why:
                return
            left -= its_time.passed()
        self.stop()
        raise StartError(
            f"{self.name} did not serve at {self.endpoint.directory} within {seconds:.0f} s: {why}{self._last_words()}"
        )

    def ask_to_end(self) -> None:
        """Have the process end, and do not wait: close the socket pair, and send SIGTERM."""
        super().ask_to_end()
        self.process.send_signal(signal.SIGTERM)


def _filled(command: Sequence[str], values: dict[str, str]) -> list[str]:
    words = list(command)
    for place, value in values.items():
        words = [word.replace(place, value) for word in words]
    return words


def _trouble(endpoint: Endpoint) -> str:
    """Return why a client cannot use the device at an endpoint; empty if one can."""
    if missing := [path.name for path in (endpoint.rpc, endpoint.link) if not path.is_socket()]:
        return f"there is no {' and no '.join(missing)}"
    try:
        with RemoteDevice(endpoint, _CLIENT_NAME, _ANSWER_SECONDS) as device:
            device.version(_ANSWER_SECONDS)
    except NnhalError as error:
        return str(error)
    return ""


@cache
def _launcher() -> ThreadPoolExecutor:
    """The thread that starts commands: the kernel takes the end of the thread that forked for that of the parent."""
    return ThreadPoolExecutor(1, thread_name_prefix="launch")
