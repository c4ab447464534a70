"""Clients that are killed: ``python -m tests.support.victims ENDPOINT``.

The process imports everything once, and each client is a fork that opens a session, fills it with objects, and then
runs executions for ever. It is sent SIGKILL while it works. A line of numbers on standard input starts a client for
each number, which is killed after that many steps. A line is printed when all of them are dead.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType

from nnhal.endpoint import Endpoint
from nnhal.fence import create_fence
from nnhal.memory import create_ashmem, create_blob
from nnhal.remote import RemoteDevice
from tests.support.additions import POOL_BYTES, Addition, addition_model, addition_of_constant


class Victims:
    """The process that starts the clients."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(endpoint.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def die(self, steps: Sequence[int]) -> None:
        """Run a client for each number, kill it after that many steps, and return when all are dead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, steps)).encode() + b"\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"dead\n":
            raise AssertionError("the clients did not get as far as they should have")

    def __enter__(self) -> Victims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def live(endpoint: Endpoint) -> Iterator[None]:
    """Do what a client does, and yield after each step."""
    device = RemoteDevice(endpoint, "victim")
    yield
    prepared = device.prepare_model(addition_model())
    yield
    other = device.prepare_model(addition_of_constant(create_blob(POOL_BYTES)))
    yield
    addition = Addition(create_ashmem(POOL_BYTES))
    execution = prepared.create_reusable_execution(addition.request)
    yield
    burst = prepared.configure_execution_burst()
    yield
    other_burst = other.configure_execution_burst()
    yield
    launcher = device.open_launcher()
    yield
    for number in count():
        addition.check(lambda: burst.run(execution), number % 100, 1)
        yield
        other_burst.execute(addition.of_one_term, [number % 3])
        yield
        prepared.execute(addition.request)
        yield
        starter, fence = create_fence()
        launched = launcher.launch(execution, [fence])
        assert launched is not None
        yield
        fenced = other.execute_fenced(addition.of_one_term, [launched])
        assert fenced.fence is not None
        yield
        starter.send()
        fenced.fence.wait()
        yield


def main() -> None:
    """Start clients until standard input ends."""
    endpoint = Endpoint(Path(sys.argv[1]))
    for line in sys.stdin:
        waiting = dict(start(endpoint, int(steps)) for steps in line.split())
        while waiting:
            for progress in select.select(list(waiting), [], [])[0]:
                client = waiting[progress]
                if not os.read(progress, 1):
                    return
                client.steps -= 1
                if client.steps == 0:
                    os.kill(client.pid, signal.SIGKILL)
                    os.waitpid(client.pid, 0)
                    os.close(progress)
                    del waiting[progress]
        print("dead", flush=True)


@dataclass
class Client:
    """A client that runs, and how many steps it has left."""

    pid: int
    steps: int


def start(endpoint: Endpoint, steps: int) -> tuple[int, Client]:
    """Start a client; return it, and a pipe that gets a byte for each of its steps."""
    progress, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return progress, Client(pid, steps)
    try:
        for _ in live(endpoint):
            os.write(writer, b".")
    except BaseException:
        traceback.print_exc()
    os._exit(1)


if __name__ == "__main__":
    main()
