"""The ``nnhal`` command as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


def nnhal(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command and wait until it ends."""
    return subprocess.run(command(arguments), capture_output=True, text=True, timeout=timeout, check=False)


def command(arguments: Sequence[str]) -> list[str]:
    """Return the argument list that runs the command with this interpreter."""
    return [sys.executable, "-c", "from nnhal_tools.cli import main; main()", *arguments]
