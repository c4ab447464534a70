"""A client that holds device memory until it is killed: ``python -m tests.support.hoarder ENDPOINT``.

It fills buffers, binds executions to them, launches one that waits for ever, and then prints a line.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.fence import create_fence
from nnhal.remote import RemoteDevice
from tests.support.device_memory import FLOAT32, adding, allocate, inside, memory_with, request_of
from tests.support.holding import hold, holder

BUFFERS = 5


def hoard_and_die(endpoint: Endpoint) -> None:
    """Start such a client, and kill it when it holds everything."""
    with holder(__name__, str(endpoint.directory)) as process:
        process.kill()


def main() -> None:
    device = RemoteDevice(Endpoint(Path(sys.argv[1])), "hoarder")
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
    hold()


if __name__ == "__main__":
    main()
