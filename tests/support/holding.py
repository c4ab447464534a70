"""Clients that hold objects until they are killed: ``python -m tests.support.holding KIND ENDPOINT [MODEL]``.

A client of a KIND takes objects, prints a line, and waits.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from nnhal.endpoint import Endpoint
from nnhal.fence import create_fence
from nnhal.remote import RemoteDevice
from nnhal_client import connect
from tests.support.device_memory import FLOAT32, adding, allocate, inside, memory_with, request_of

Kind = Literal["memory", "bindings", "device_memory"]
BUFFERS = 5
_SAID = b"holding\n"


@contextmanager
def holder(kind: Kind, endpoint: Path, *model: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a client, and wait until it holds everything; the context's end kills it."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__, kind, str(endpoint), *model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == _SAID
            yield process
        finally:
            process.kill()


def memory(framework: Path, path: str) -> None:
    """Fill a buffer for every input of a model, bind them, and have one buffer more."""
    with connect(framework) as session:
        model = session.load(path, devices=["cpu_ref"])
        memories = {tensor.name: session.allocate([model.input_role(tensor.name)]) for tensor in model.inputs}
        for tensor in model.inputs:
            memories[tensor.name].copy_from(np.zeros(tensor.dimensions, np.float32))
        memories["spare"] = session.allocate([model.output_role(model.outputs[0].name)])
        model.bind(memories={name: memory for name, memory in memories.items() if name != "spare"})
        _hold()


def bindings(framework: Path, name: str) -> None:
    """Open a served model, bind it four times, and run each binding."""
    with connect(framework) as session:
        model = session.open(name)
        bound = [model.bind() for _ in range(4)]
        for binding in bound:
            binding.run()
        _hold()


def device_memory(device_endpoint: Path) -> None:
    """Fill buffers of a device, bind executions to them, and launch one that waits for ever."""
    device = RemoteDevice(Endpoint(device_endpoint), "hoarder")
    prepared = device.prepare_model(adding(FLOAT32))
    buffers = [allocate(device, prepared, [0, 1], [0]) for _ in range(BUFFERS)]
    for buffer in buffers[1:]:
        buffer.copy_from(memory_with(FLOAT32.values(1)))
    first, *others = (inside(buffer) for buffer in buffers)
    execution = prepared.create_reusable_execution(request_of(others[:2], [first]))
    execution.execute()
    prepared.configure_execution_burst().run(execution)
    held = create_fence(), create_fence()
    launched = [prepared.execute_fenced(request_of(others[:2], [others[-1]]), [fence]) for _, fence in held]
    launched.append(execution.execute_fenced([held[0][1]]))
    _hold()


def _hold() -> None:
    """Report that this client holds everything, and hold it until standard input ends."""
    print(_SAID.decode(), end="", flush=True)
    sys.stdin.read()


_HOLDS: dict[str, Callable[..., None]] = {"memory": memory, "bindings": bindings, "device_memory": device_memory}

if __name__ == "__main__":
    _, chosen, folder, *words = sys.argv
    _HOLDS[chosen](Path(folder), *words)
