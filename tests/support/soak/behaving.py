"""``python -m tests.support.soak.behaving KIND ADDRESS SECONDS RATE FILE``: a client that behaves.

It sends one request after the other, RATE per second, or as fast as it can if RATE is 0, and checks each answer. FILE
gets the seconds that each request took, as float32. It prints ``ready``, and begins at the next line of its input.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import ModuleType

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm

from nnhal.arrays import Array
from nnhal_client import connect
from tests.support.repositories import numbers
from tests.support.tritonclients import Triton

Infer = Callable[[Array], Array]
_WARM_UP = 20


def main() -> None:
    """Run the client. Exits with 1 and a message after a wrong answer."""
    kind, address, seconds, rate, file = sys.argv[1:]
    with _KINDS[kind](address) as infer:
        for number in range(_WARM_UP):
            _check(infer, number)
        print("ready", flush=True)
        sys.stdin.readline()
        latencies = _work(infer, float(seconds), float(rate))
    Path(file).write_bytes(latencies.tobytes())


def _work(infer: Infer, seconds: float, rate: float) -> array[float]:
    pause, latencies = Event(), array("f")
    interval = 1 / rate if rate else 0.0
    started = due = time.monotonic()
    while (now := time.monotonic()) < started + seconds:
        if due > now:
            pause.wait(due - now)
        due = max(due + interval, now)
        latencies.append(_check(infer, len(latencies)))
    return latencies


def _check(infer: Infer, number: int) -> float:
    """Send a request, check the answer, and return the seconds that it took."""
    given = np.add(numbers(), number % 100, dtype=np.float32)
    before = time.monotonic()
    answer = infer(given)
    took = time.monotonic() - before
    if not np.allclose(answer, np.tanh(given), atol=1e-5):
        sys.exit(f"a wrong answer to {given}: {answer}")
    return took


@contextmanager
def _over(api: ModuleType, address: str) -> Iterator[Infer]:
    with Triton(api.__name__, api, address) as client:
        yield lambda given: client.infer("tanh", {"x": given}).as_numpy("y")


@contextmanager
def _over_grpc(address: str) -> Iterator[Infer]:
    with _over(tritonclient.grpc, address) as infer:
        yield infer


@contextmanager
def _over_http(address: str) -> Iterator[Infer]:
    with _over(tritonclient.http, address) as infer:
        yield infer


@contextmanager
def _over_shared_memory(address: str) -> Iterator[Infer]:
    """Use gRPC, with a region for the input and the output."""
    size, key = numbers().nbytes, f"nnhal_good_{time.monotonic_ns()}"
    region = shm.create_shared_memory_region("good", key, 2 * size, create_only=True)
    try:
        with Triton("grpc", tritonclient.grpc, address) as client:
            client.client.register_system_shared_memory("good", key, 2 * size)
            tensor = tritonclient.grpc.InferInput("x", list(numbers().shape), "FP32")
            tensor.set_shared_memory("good", size)
            wanted = tritonclient.grpc.InferRequestedOutput("y")
            wanted.set_shared_memory("good", size, size)

            def infer(given: Array) -> Array:
                shm.set_shared_memory_region(region, [given])
                client.client.infer("tanh", [tensor], outputs=[wanted])
                answer: Array = shm.get_contents_as_numpy(region, np.float32, list(given.shape), size)
                return answer

            yield infer
            client.client.unregister_system_shared_memory("good")
    finally:
        shm.destroy_shared_memory_region(region)


@contextmanager
def _natively(address: str) -> Iterator[Infer]:
    with connect(address) as framework:
        model = framework.open("tanh")
        yield lambda given: np.asarray(model.run({"x": given})["y"])


_KINDS = {"grpc": _over_grpc, "http": _over_http, "shared memory": _over_shared_memory, "native": _natively}

if __name__ == "__main__":
    main()
