"""The ``nnhal`` command as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


def nnhal(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(command(arguments), capture_output=True, text=True, timeout=timeout, check=False)


def command(arguments: Sequence[str]) -> list[str]:
    """The words that run the command with this very interpreter."""
    return [sys.executable, "-c", "from nnhal_tools.cli import main; main()", *arguments]
