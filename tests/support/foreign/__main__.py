"""The device's process: ``python -m tests.support.foreign DIR [--numbers]``.

With ``--numbers`` its answers carry the numbers of their calls.

It writes a line when it serves. Each line of its standard input is a command to ``Faults``, answered with a line; at
the end of the input the process ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nnhal.v1 import link_pb2
from tests.support.foreign.faults import Faults
from tests.support.foreign.servicer import serve


def main() -> None:
    """Serve until the standard input ends."""
    faults, capabilities = Faults(), [link_pb2.LINK_CAPABILITY_NUMBERED_ANSWERS] if "--numbers" in sys.argv else []
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("link.sock", "device.sock"):  # those of a process that was killed
        (directory / name).unlink(missing_ok=True)
    server = serve(directory, faults, capabilities)
    print("serves", flush=True)
    for line in sys.stdin:
        faults.obey(line)
        print("done", flush=True)
    server.stop(None)


if __name__ == "__main__":
    main()
