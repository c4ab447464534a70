"""The ``nnhal`` command."""

from __future__ import annotations

import sys

from nnhal_hosting.interrupts import interruptible
from nnhal_tools.cli.programs import PROGRAMS, become

__all__ = ["main"]


def main() -> None:
    """Run the command. What is a program of its own starts at once, and needs none of the command's packages."""
    command, *arguments = sys.argv[1:] or [""]
    if command in PROGRAMS:
        become(command, arguments)
    if command == "health":
        from nnhal_tools.health.command import main as health

        sys.exit(health(arguments))
    if command == "watched":
        from nnhal_tools.cli.watched import main as watched

        sys.exit(watched(arguments))
    with interruptible("nnhal"):
        from nnhal_hosting.extras import STARTED, require_extra

        require_extra("tools", "nnhal", STARTED)
        from nnhal_tools.cli import app

        app.main()
