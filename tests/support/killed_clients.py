"""Clients in processes of their own, which tell of their steps until they are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm

from nnhal.endpoint import Endpoint
from nnhal.fence import create_fence
from nnhal.memory import create_ashmem, create_blob
from nnhal.remote import RemoteDevice
from nnhal_client import connect
from tests.support.additions import POOL_BYTES, Addition, addition_model, addition_of_constant

Life = Callable[..., Iterator[None]]
# The fork server has imported everything: the imports would otherwise be most of the cost of a client.
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])
_BUFFERS = 5
ROWS = 4
BYTES = 16 * ROWS
"""The size of the input of ``using_a_region``; its region has as many bytes again for the output."""


class KilledClient:
    """A client in a process of its own."""

    def __init__(self, life: Life, arguments: tuple[Any, ...]) -> None:
        self._told, tell = _FORKS.Pipe(duplex=False)
        with tell:
            self.process = _FORKS.Process(target=_live, args=(life, arguments, tell))
            self.process.start()

    def wait_for_steps(self, steps: int) -> None:
        """Wait until it has made so many steps more. Raises EOFError if it has ended before."""
        for _ in range(steps):
            self._told.recv_bytes()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        self.kill()
        self.process.close()
        self._told.close()


@contextmanager
def killed_client(life: Life, *arguments: Any, steps: int = 1) -> Iterator[KilledClient]:
    """Run a client, and wait until it has made some steps; the context's end kills it."""
    client = KilledClient(life, arguments)
    try:
        client.wait_for_steps(steps)
        yield client
    finally:
        client.close()


def _live(life: Life, arguments: tuple[Any, ...], tell: Connection) -> None:
    for _ in life(*arguments):
        tell.send_bytes(b".")


def _hold(*_: object) -> None:
    """Keep what is held until this process is killed."""
    Event().wait()


def working(directory: Path) -> Iterator[None]:
    """Open a session with a device, fill it with objects, and then run executions for ever."""
    device = RemoteDevice(Endpoint(directory), "victim")
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


def holding_memories(framework: Path, path: Path) -> Iterator[None]:
    """Fill a buffer for every input of a model, bind them, and have one buffer more."""
    session = connect(framework)
    model = session.load(path, devices=["cpu_ref"])
    memories = {tensor.name: session.allocate([model.input_role(tensor.name)]) for tensor in model.inputs}
    for tensor in model.inputs:
        memories[tensor.name].copy_from(np.zeros(tensor.dimensions, np.float32))
    spare = session.allocate([model.output_role(model.outputs[0].name)])
    binding = model.bind(memories=memories)
    yield
    _hold(spare, binding)


def holding_bindings(framework: Path, name: str) -> Iterator[None]:
    """Open a served model, bind it four times, and run each binding."""
    model = connect(framework).open(name)
    bound = [model.bind() for _ in range(4)]
    for binding in bound:
        binding.run()
    yield
    _hold(bound)


def using_a_region(address: str, key: str) -> Iterator[None]:
    """Register the file KEY in /dev/shm as ``mine`` over gRPC, and then run ``echo_fp32`` there for ever."""
    region = shm.create_shared_memory_region("mine", key, 2 * BYTES)
    given = np.arange(4 * ROWS, dtype=np.float32).reshape(ROWS, 4)
    shm.set_shared_memory_region(region, [given])
    client = tritonclient.grpc.InferenceServerClient(address)
    client.register_system_shared_memory("mine", key, 2 * BYTES)
    yield
    tensor = tritonclient.grpc.InferInput("x", [ROWS, 4], "FP32")
    tensor.set_shared_memory("mine", BYTES)
    wanted = tritonclient.grpc.InferRequestedOutput("y")
    wanted.set_shared_memory("mine", BYTES, BYTES)
    while True:
        client.infer("echo_fp32", [tensor], outputs=[wanted])
        found = shm.get_contents_as_numpy(region, np.float32, [ROWS, 4], BYTES)
        assert (found == given).all(), "another's numbers"


@contextmanager
def region_client(address: str, key: str) -> Iterator[KilledClient]:
    """Run a client that uses a region; its file goes with it."""
    try:
        with killed_client(using_a_region, address, key) as client:
            yield client
    finally:
        Path("/dev/shm", key).unlink(missing_ok=True)
