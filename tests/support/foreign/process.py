"""Starts the foreign device, and tells it what to do wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nnhal.endpoint import Endpoint
from tests.support.foreign.faults import FOR_EVER, FaultName

_ROOT = Path(__file__).parents[3]


class ForeignDevice:
    """The process of a foreign device. It does nothing wrong unless it is told to."""

    def __init__(self, directory: Path, numbers: bool = False) -> None:
        """``numbers`` says whether its answers carry the numbers of their calls."""
        self._options = ["--numbers"] if numbers else []
        self.endpoint = Endpoint(directory)
        self._asked: set[FaultName] = set()
        self._process: subprocess.Popen[str]
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Start the process, again if it was killed, and wait until it serves."""
        command = [sys.executable, "-m", "tests.support.foreign", str(self.endpoint.directory), *self._options]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, bufsize=1
        )
        try:
            self._read("serves")
        except BaseException:
            self.kill()
            raise

    def fail(self, fault: FaultName, times: int = FOR_EVER) -> None:
        """Have it do something wrong so many times, from now on."""
        self._asked.add(fault)
        self._tell({"faults": {fault: times}})

    def change(self, method: str, **fields: Any) -> None:
        """Have it answer a method of gRPC with other fields, as JSON has them: ``change("Describe", alignment=-64)``.

        Without fields it gives its usual answer again.
        """
        self._tell({"answers": {method: fields}})

    def lack(self, *methods: str) -> None:
        """Have it serve all methods of gRPC but these: ``lack("WireStep")``."""
        self._tell({"missing": methods})

    def behave(self) -> None:
        """Have it do nothing wrong any more. Answers that were changed stay so."""
        self._tell({"faults": dict.fromkeys(self._asked, 0)})

    def kill(self) -> None:
        """End the process by SIGKILL, and wait for its end."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait()
        _pipe(self._process.stdout).close()

    def _tell(self, command: Mapping[str, Any]) -> None:
        print(json.dumps(command), file=_pipe(self._process.stdin), flush=True)
        self._read("done")

    def _read(self, expected: str) -> None:
        line = _pipe(self._process.stdout).readline().strip()
        assert line == expected, f"the foreign device has ended or says {line!r}"


@contextmanager
def foreign_device(directory: Path, name: str = "foreign", numbers: bool = False) -> Iterator[ForeignDevice]:
    """Run a foreign device under ``directory`` until the context ends; ``numbers`` as of ForeignDevice."""
    device = ForeignDevice(directory / name, numbers)
    try:
        yield device
    finally:
        device.close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
