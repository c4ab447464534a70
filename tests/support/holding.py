"""Clients that take objects, report that they hold them, and wait to be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAID = b"holding\n"


@contextmanager
def holder(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a client, ``python -m MODULE ARGUMENTS``, and wait until it holds everything; the context's end kills it."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == _SAID
            yield process
        finally:
            process.kill()


def hold() -> None:
    """Report that this client holds everything, and hold it until standard input ends."""
    print(_SAID.decode(), end="", flush=True)
    sys.stdin.read()
