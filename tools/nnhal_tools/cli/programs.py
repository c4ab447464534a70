"""Commands that are programs of their own: the command becomes that program, which reads the options."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

PROGRAMS = {"device": "nnhal_devices", "serve": "nnhal_service", "dashboard": "nnhal_dashboard"}
"""The package of each."""


def become(command: str, arguments: Sequence[str]) -> None:
    """Run the program of a command in place of this one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # until the program answers it: see Supervision
    os.execv(sys.executable, [sys.executable, "-m", PROGRAMS[command], *arguments])
