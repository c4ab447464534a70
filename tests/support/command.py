"""The ``nnhal`` command as a user runs it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from nnhal_tools.cli.app import COMMANDS
from tests.support.processes import WARM_MODULES, WarmZygote

_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_COMMANDS = sorted({found.target.partition(":")[0] for found in COMMANDS.values()})
_ZYGOTE = WarmZygote([*WARM_MODULES, *_COMMANDS, "benchmarks.__main__"])


class _Reader:
    """Reads a pipe to its end, in a thread of its own."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._read: list[bytes] = []
        self._thread = threading.Thread(target=lambda: self._read.append(pipe.read()))
        self._thread.start()

    def text(self) -> str:
        self._thread.join()
        return b"".join(self._read).decode()


def nnhal(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command as ``subprocess.run`` does, in a fork of a warm process, and end it after ``timeout`` seconds."""
    return _run_warm("nnhal_tools.cli", arguments, timeout)


def benchmark(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m benchmarks.NAME``, also in a fork of a warm process, and wait until it ends."""
    return _run_warm(f"benchmarks.{name}", arguments, 120)


def _run_warm(module: str, arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    ours, theirs = socket.socketpair()
    end, stdout = os.pipe()
    with ours, theirs, os.fdopen(end, "rb") as said:
        socket.send_fds(ours, [b"1"], [stdout])
        os.close(stdout)
        process = _ZYGOTE.fork("tests.support.warm_command", [module, *arguments], theirs.fileno(), os.environ)
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


def nnhal_on_terminal(columns: int, *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal of that width. Returns its status, and its output without styles."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment["TERM"] = "xterm"
    with subprocess.Popen(command(arguments), stdout=terminal, stderr=subprocess.DEVNULL, env=environment) as running:
        os.close(terminal)
        printed = b"".join(_chunks(screen))
    os.close(screen)
    return running.returncode, _STYLES.sub("", printed.decode())


def _chunks(screen: int) -> Iterator[bytes]:
    try:
        while chunk := os.read(screen, 1 << 16):
            yield chunk
    except OSError:  # EIO: the command has closed the terminal
        return


def command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", "from nnhal_tools.cli import main; main()", *arguments]
