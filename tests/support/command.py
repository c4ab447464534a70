"""The ``nnhal`` command as a user runs it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def nnhal(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command and wait until it ends."""
    return subprocess.run(command(arguments), capture_output=True, text=True, timeout=timeout, check=False)


def benchmark(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m benchmarks.NAME`` and wait until it ends."""
    words = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


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
    """Return the argument list that runs the command with this interpreter."""
    return [sys.executable, "-c", "from nnhal_tools.cli import main; main()", *arguments]
