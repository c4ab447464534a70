"""Requests at a steady rate from several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from nnhal_tools.bench.serve import Target


class SteadyLoad:
    """Senders that share a rate. Use it as a context."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """One process for each target."""
        self._targets = targets
        self._senders: list[subprocess.Popen[str]] = []
        self._undo = ExitStack()

    def __enter__(self) -> SteadyLoad:
        for target in self._targets:
            command = [sys.executable, "-m", "benchmarks.dashboard.steady_sender"]
            sender = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._senders.append(sender)
            self._undo.callback(_end, sender)
            _tell(sender, target.to_json())
        for sender in self._senders:
            _answer(sender)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def measure(self, seconds: float, rate: float) -> list[float]:
        """Send requests for a time, ``rate`` a second in all, and return their latencies in seconds."""
        share = rate / len(self._senders)
        for number, sender in enumerate(self._senders):
            _tell(sender, json.dumps({"after": number / rate, "seconds": seconds, "rate": share}))
        return [latency for sender in self._senders for latency in _answer(sender)]

    @contextmanager
    def flowing(self, rate: float) -> Iterator[None]:
        """Send requests until the context ends."""
        ended = threading.Event()

        def flow() -> None:
            while not ended.is_set():
                self.measure(1.0, rate)

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _tell(sender: subprocess.Popen[str], line: str) -> None:
    assert sender.stdin is not None
    sender.stdin.write(line + "\n")
    sender.stdin.flush()


def _answer(sender: subprocess.Popen[str]) -> Any:
    assert sender.stdout is not None
    line = sender.stdout.readline()
    if not line:
        raise RuntimeError(f"a sender of requests ended with status {sender.wait()}")
    return json.loads(line)


def _end(sender: subprocess.Popen[str]) -> None:
    assert sender.stdin is not None
    sender.stdin.close()
    sender.wait()
