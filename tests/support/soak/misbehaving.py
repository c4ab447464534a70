"""``python -m tests.support.soak.misbehaving GRPC HTTP REPOSITORY PAUSE``: clients that misbehave.

Each misbehaves again after a pause until standard input ends. Exits with 1 if a client gets an unexpected answer.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.support.repositories import numbers
from tests.support.shm_clients import use_for_ever
from tests.support.soak.good_clients import SIDE
from tests.support.tritonclients import Triton, status_of

COMING = "comes_and_goes"
# The fork server has imported everything: the imports would otherwise be most of the cost of a process that dies.
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.support.shm_clients"])
_HTTP = b"POST /v2/models/tanh/infer HTTP/1.1\r\nHost: localhost\r\n"
_PROTOCOL_ERRORS = {"INVALID_ARGUMENT", "NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"}
"""The statuses that a client which misbehaves may get."""


@dataclass(frozen=True)
class Target:
    """The addresses of a server, and its repository."""

    grpc: str
    http: str
    repository: Path


Step = Callable[[Target, random.Random], None]


def main() -> None:
    """Misbehave until standard input ends."""
    grpc, http, repository, pause = sys.argv[1:]
    target, ending = Target(grpc, http, Path(repository)), threading.Event()

    def go_on(step: Step) -> None:
        source = random.Random(step.__name__)
        try:
            while not ending.wait(float(pause)):
                step(target, source)
        except BaseException:
            ending.set()
            raise

    steps: tuple[Step, ...] = (
        _send_garbage,
        _ask_for_nonsense,
        _cancel,
        _truncate_a_region,
        _die,
        _load_and_unload,
        _leave_a_stream,
    )
    with ThreadPoolExecutor(len(steps)) as pool:
        work = [pool.submit(go_on, step) for step in steps]
        print("begun", flush=True)
        sys.stdin.read()
        ending.set()
    for step in work:
        step.result()


@contextmanager
def _refused(*more: str) -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        if status_of(error) not in {*_PROTOCOL_ERRORS, *more}:
            raise


def _client(served: Target) -> Triton:
    return Triton("grpc", tritonclient.grpc, served.grpc)


def _send_garbage(served: Target, source: random.Random) -> None:
    """Send bytes that are not a request, and halves of requests, to both ports."""
    with ExitStack() as stack:
        for address in (served.http, served.grpc):
            host, _, port = address.rpartition(":")
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            half = source.choice((_HTTP, _HTTP + b"Content-Length: 100\r\n\r\n{", source.randbytes(200), b"PRI * HT"))
            connection.sendall(half)
            if source.random() < 0.5:  # leave with a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _ask_for_nonsense(served: Target, source: random.Random) -> None:
    """Request unknown models, and shapes and types that models do not take."""
    with _client(served) as client:
        for _ in range(10):
            model = source.choice(("unknown", "tanh", "pair", COMING))
            given = np.zeros((source.randint(1, 12), source.randint(1, 12)), source.choice((np.float32, np.int8)))
            with _refused():
                client.infer(model, {"x": given})


def _cancel(served: Target, source: random.Random) -> None:
    """Cancel requests that take long after a short timeout."""
    with _client(served) as client:
        for _ in range(3):
            with _refused():
                client.infer(
                    "powers", {"x": np.eye(SIDE, dtype=np.float32)}, client_timeout=source.uniform(0.001, 0.02)
                )


def _truncate_a_region(served: Target, source: random.Random) -> None:
    """Truncate shared memory while it is used."""
    key = f"nnhal_soak_{os.getpid()}_{source.getrandbits(32)}"
    made = shm.create_shared_memory_region("mine", key, 128, create_only=True)
    try:
        with _client(served) as client:
            client.client.register_system_shared_memory("mine", key, 128)
            tensor = tritonclient.grpc.InferInput("x", [4, 4], "FP32")
            tensor.set_shared_memory("mine", 64)
            wanted = tritonclient.grpc.InferRequestedOutput("y")
            wanted.set_shared_memory("mine", 64, 64)
            for size in (128, 100, 0, 128):
                os.truncate(f"/dev/shm/{key}", size)
                with _refused():
                    client.client.infer("echo_fp32", [tensor], outputs=[wanted])
            client.client.unregister_system_shared_memory("mine")
    finally:
        shm.destroy_shared_memory_region(made)


def _die(served: Target, source: random.Random) -> None:
    """Kill a process that has shared memory and requests."""
    key = f"nnhal_soak_{os.getpid()}_{source.getrandbits(32)}"
    told, tell = _FORKS.Pipe(duplex=False)
    with told, tell:
        process = _FORKS.Process(target=_live, args=(served.grpc, key, tell))
        process.start()
        tell.close()
        told.recv()
        process.kill()
        process.join()
        process.close()
    Path("/dev/shm", key).unlink()


def _live(address: str, key: str, tell: Connection) -> None:
    use_for_ever(address, key, lambda: tell.send("registered"))


def _load_and_unload(served: Target, source: random.Random) -> None:
    with _client(served) as client:
        client.client.load_model(COMING)
        given = numbers()
        if not np.array_equal(client.infer(COMING, {"x": given}).as_numpy("y"), -given):
            raise AssertionError(f"a wrong answer of {COMING}")
        client.client.unload_model(COMING)


def _leave_a_stream(served: Target, source: random.Random) -> None:
    with _client(served) as client:
        client.client.start_stream(lambda result, error: None)  # noqa: ARG005
        for _ in range(source.randint(1, 20)):
            with _refused():
                client.client.async_stream_infer("tanh", client.inputs({"x": numbers()}))
        client.client.stop_stream(cancel_requests=True)


if __name__ == "__main__":
    main()
