"""``python -m benchmarks.dashboard.idle_client DIR COUNT DEVICE…``: holds sessions open until its input ends.

Half of them are with the framework below the directory, the others with the devices in turn.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.dashboard.testbed import DIGITS, model_name
from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_client import connect

_OWNERS = 10
"""One session with the framework in so many has bound a model, and owns a buffer of a device."""


def main() -> int:
    """Open the sessions, say so in a line, and wait."""
    directory, count, devices = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with ExitStack() as stack:
        for number in range(count // 2):
            stack.enter_context(RemoteDevice(Endpoint(directory / devices[number % len(devices)])))
            session = stack.enter_context(connect(directory / "framework"))
            if number % _OWNERS == 0:
                session.open(model_name(0)).bind().run()
                model = session.load(DIGITS)
                session.allocate([model.input_role(model.inputs[0].name)])
        print("open", flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
