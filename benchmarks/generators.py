"""Load generators: processes that are told windows of requests, and report on them, in lines of JSON.

They are spawned, since gRPC does not survive a fork, and end with their input, however their parent ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nnhal.contexts import Closing
from nnhal.errors import NnhalError

_STOP_SECONDS = 20.0
Answer = Callable[[object], None]


class BenchError(NnhalError):
    """A measurement that cannot be made: no such model, a server that does not answer, inputs that do not fit."""


class Generator(Closing):
    """The process of a load generator, as its parent sees it. Use it as a context."""

    def __init__(self, module: str, title: str, target: object) -> None:
        """Start a module, and tell it its target. ``title`` is how errors call it."""
        self._title = title
        self.process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.tell(target)

    def tell(self, what: object) -> None:
        """Send a line. A process that has ended is reported when its answer is read."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()

    def answer(self) -> Any:
        """Read the next line. Raises BenchError if the process has ended or reports an error."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"{self._title}: a load generator ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self._title}: {answer['error']}")
        return answer

    def end(self) -> None:
        """Close the input, which ends the process."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def close(self) -> None:
        """Wait until the process has ended; kill it if that takes too long."""
        assert self.process.stdout is not None
        self.end()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def generator_answers() -> Answer:
    """Prepare this process to be a load generator, and return the function that sends an answer to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts every process, but the parent ends its own
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not be taken for an answer

    def answer(what: object) -> None:
        print(json.dumps(what), file=answers, flush=True)

    return answer
