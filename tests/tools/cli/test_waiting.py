"""The sign that moves on a terminal until a command writes something."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.support.command import command

_WAITS = """
import sys
from nnhal_tools.cli.waiting import MovingSign
waiting = MovingSign("nnhal run")
waiting.start()
sys.stdin.readline()
print("done")
sys.stdin.readline()
"""


def read_until(terminal: int, text: str) -> str:
    """Read what comes on a terminal until a text has come."""
    found = b""
    while text.encode() not in found:
        found += os.read(terminal, 1 << 16)
    return found.decode(errors="replace")


def test_it_moves_until_the_first_output_and_leaves_nothing() -> None:
    screen, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _WAITS], stdin=subprocess.PIPE, stdout=terminal, stderr=terminal
    ) as running:
        assert running.stdin is not None
        read_until(screen, "⠹ nnhal run")  # the third of the sign's positions
        running.stdin.write(b"\n")
        running.stdin.flush()
        assert "\r\x1b[Kdone" in read_until(screen, "done")
        running.stdin.close()
        running.wait()
        os.close(terminal)
        rest = b""
        try:
            while chunk := os.read(screen, 1 << 16):
                rest += chunk
        except OSError:  # EIO: nobody has the terminal any more
            pass
        os.close(screen)
    assert rest.strip() == b""


def test_a_command_shows_it_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    words = command(["explain", str(tmp_path / "none.onnx")])
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("nnhal: ") and "nnhal explain" not in done.stderr
    screen, terminal = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=terminal):
        assert "⠋ nnhal explain" in read_until(screen, "No such file")
    os.close(screen)
    os.close(terminal)
