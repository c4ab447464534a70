"""Clients with shared memory that live until they are killed.

A client registers the file KEY in /dev/shm as ``mine`` over gRPC, and then runs ``echo_fp32`` for ever.
"""

from __future__ import annotations

import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import numpy as np
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm

ROWS = 4
BYTES = 16 * ROWS
"""The size of the input; the region has as many bytes again for the output."""
# The fork server has imported everything: the imports would otherwise be most of the cost of a client.
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


class ShmClient:
    """A process of such a client, as a context manager."""

    def __init__(self, address: str, key: str) -> None:
        self._file = Path("/dev/shm", key)
        self._told, tell = _FORKS.Pipe(duplex=False)
        with tell:
            self._process = _FORKS.Process(target=_use_for_ever, args=(address, key, tell))
            self._process.start()

    def wait_until_registered(self) -> None:
        assert self._told.recv() == "registered"

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._file.unlink(missing_ok=True)

    def __enter__(self) -> ShmClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._process.close()
        self._told.close()


def _use_for_ever(address: str, key: str, tell: Connection) -> NoReturn:
    """Register a region, say so, and use it for ever. Exits with a message after a wrong answer."""
    region = shm.create_shared_memory_region("mine", key, 2 * BYTES)
    given = np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4)
    shm.set_shared_memory_region(region, [given])
    client = tritonclient.grpc.InferenceServerClient(address)
    client.register_system_shared_memory("mine", key, 2 * BYTES)
    tell.send("registered")
    tensor = tritonclient.grpc.InferInput("x", [ROWS, 4], "FP32")
    tensor.set_shared_memory("mine", BYTES)
    wanted = tritonclient.grpc.InferRequestedOutput("y")
    wanted.set_shared_memory("mine", BYTES, BYTES)
    while True:
        client.infer("echo_fp32", [tensor], outputs=[wanted])
        if not (shm.get_contents_as_numpy(region, np.float32, [ROWS, 4], BYTES) == given).all():
            sys.exit("another's numbers")
