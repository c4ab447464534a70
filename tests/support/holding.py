"""Clients that say that they hold something, and wait to be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAID = b"holding\n"


@contextmanager
def holder(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A client, ``python -m MODULE ARGUMENTS``, that holds everything; killed with the context, if not before."""
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
    """In the client: say that it has everything, and keep it until standard input ends."""
    print(_SAID.decode(), end="", flush=True)
    sys.stdin.read()
