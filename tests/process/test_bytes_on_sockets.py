"""Bytes that cross the sockets: handles of memory, and never its contents."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool
from nnhal.remote import RemoteBurst, RemoteDevice
from nnhal.types import (
    DataLocation,
    Memory,
    Model,
    Operand,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
)
from tests.support.models import Recipe

_CHUNK_BYTES = 1 << 16


class CountingProxy:
    """Forwards connections to ``path`` to ``target``; ``bytes`` counts both directions."""

    def __init__(self, path: Path, target: Path) -> None:
        self.bytes = 0
        self._target = str(target)
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            far.connect(self._target)
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._relay, args=(source, sink))
                self._threads.append(thread)
                thread.start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                with self._lock:
                    self.bytes += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def counting_proxy(path: Path, target: Path) -> Iterator[CountingProxy]:
    """Run a proxy until the context ends."""
    proxy = CountingProxy(path, target)
    try:
        yield proxy
    finally:
        proxy.close()


ELEMENTS = 1 << 21
TENSOR_BYTES = 4 * ELEMENTS
MAX_BYTES = 64 * 1024
"""The most bytes for a whole session: opening it, preparing a model, and three executions."""


def relu() -> Model:
    recipe = Recipe()
    x = recipe.input(OperandType.TENSOR_FLOAT32, (1, ELEMENTS))
    y = recipe.operation(OperationType.RELU, [x], Operand(OperandType.TENSOR_FLOAT32, (1, ELEMENTS)))
    return recipe.build(y).model


class Traffic:
    """Counts all bytes between a client and a device."""

    def __init__(self, rpc: CountingProxy, device: RemoteDevice) -> None:
        self._rpc = rpc
        self._device = device
        self.bursts: list[RemoteBurst] = []

    @property
    def bytes(self) -> int:
        """The bytes over the gRPC socket, the link and the bursts' channels, in both directions."""
        return self._rpc.bytes + self._device.link_bytes + sum(burst.traffic.total for burst in self.bursts)


@pytest.mark.slow
@pytest.mark.parametrize("make", [create_ashmem, create_blob])
def test_no_tensor_crosses_a_socket(cpu_acc: Endpoint, short_path: Path, make: Callable[[int], Memory]) -> None:
    relayed = Endpoint(short_path)
    relayed.link.symlink_to(cpu_acc.link)
    memory = make(2 * TENSOR_BYTES)
    pool = open_pool(memory, writable=True)
    assert isinstance(pool, MappedPool)
    values = pool.view(0, 2 * TENSOR_BYTES).view(np.float32)
    x, y = values[:ELEMENTS], values[ELEMENTS:]
    request = Request(
        (RequestArgument(DataLocation(0, 0, TENSOR_BYTES)),),
        (RequestArgument(DataLocation(0, TENSOR_BYTES, TENSOR_BYTES)),),
        (memory,),
    )
    with counting_proxy(relayed.rpc, cpu_acc.rpc) as rpc, RemoteDevice(relayed, "test") as device:
        traffic = Traffic(rpc, device)
        staged = device.usage().staged_bytes
        prepared = device.prepare_model(relu())
        execution, burst = prepared.create_reusable_execution(request), prepared.configure_execution_burst()
        traffic.bursts.append(burst)
        runs: list[Callable[[], object]] = [
            lambda: burst.run(execution),
            lambda: burst.execute(request, [0]),
            lambda: prepared.execute(request),
        ]
        for number, run in enumerate(runs):
            x[:] = -1
            x[number::3] = number + 1
            y[:] = np.nan
            run()
            np.testing.assert_array_equal(y, np.maximum(x, 0))
        assert device.usage().staged_bytes == staged
        assert 1000 < traffic.bytes < MAX_BYTES


def test_a_run_in_a_burst_takes_a_few_bytes_each_way(cpu_acc: Endpoint) -> None:
    small = create_ashmem(2 * TENSOR_BYTES)
    request = Request(
        (RequestArgument(DataLocation(0, 0, TENSOR_BYTES)),),
        (RequestArgument(DataLocation(0, TENSOR_BYTES, TENSOR_BYTES)),),
        (small,),
    )
    with RemoteDevice(cpu_acc, "test") as device:
        prepared = device.prepare_model(relu())
        execution, burst = prepared.create_reusable_execution(request), prepared.configure_execution_burst()
        burst.run(execution)
        before, link_before = burst.traffic.total, device.link_bytes
        burst.run(execution)
        assert burst.traffic.total - before <= 64
        assert device.link_bytes == link_before
