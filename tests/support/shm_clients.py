"""Clients with shared memory that live until they are killed: ``python -m tests.support.shm_clients ADDRESS KEY``.

A client registers the file KEY in /dev/shm as ``mine`` over gRPC, prints a line, and then runs ``echo_fp32`` for ever.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import numpy as np
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm

ROWS = 4
BYTES = 16 * ROWS
"""The size of the input; the region has as many bytes again for the output."""


class ShmClient:
    """A process of such a client, as a context manager."""

    def __init__(self, address: str, key: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, address, key],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def wait_until_registered(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"registered\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> ShmClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        with self._process:
            pass


def use_for_ever(address: str, key: str, registered: Callable[[], None]) -> NoReturn:
    """Register a region, call ``registered``, and use it for ever. Exits with a message after a wrong answer."""
    region = shm.create_shared_memory_region("mine", key, 2 * BYTES)
    given = np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4)
    shm.set_shared_memory_region(region, [given])
    client = tritonclient.grpc.InferenceServerClient(address)
    client.register_system_shared_memory("mine", key, 2 * BYTES)
    registered()
    tensor = tritonclient.grpc.InferInput("x", [ROWS, 4], "FP32")
    tensor.set_shared_memory("mine", BYTES)
    wanted = tritonclient.grpc.InferRequestedOutput("y")
    wanted.set_shared_memory("mine", BYTES, BYTES)
    while True:
        client.infer("echo_fp32", [tensor], outputs=[wanted])
        if not (shm.get_contents_as_numpy(region, np.float32, [ROWS, 4], BYTES) == given).all():
            sys.exit("another's numbers")


def main() -> None:
    """Use a region until killed."""
    address, key = sys.argv[1:]
    use_for_ever(address, key, lambda: print("registered", flush=True))


if __name__ == "__main__":
    main()
