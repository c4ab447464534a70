"""The foreign device as a command of a topology: ``python -m tests.support.foreign_command DIR [--plain]``.

It keeps to the protocol of supervision in docs/write_a_device.md; with ``--plain`` it knows nothing of a supervisor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

from tests.support.foreign.faults import Faults
from tests.support.foreign.servicer import serve

_ROOT = Path(__file__).parents[2]


def foreign_command(*options: str) -> tuple[str, ...]:
    """The words of the command, which serves at the directory of its device."""
    return ("env", f"PYTHONPATH={_ROOT}", sys.executable, "-m", __name__, "{endpoint}", *options)


def main() -> None:
    """Serve until the supervisor closes its end, or SIGTERM comes."""
    directory = Path(sys.argv[1])
    server = serve(directory, Faults())
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    if "--plain" not in sys.argv:
        threading.Thread(target=_obey, args=(int(os.environ["NNHAL_SUPERVISOR"]), ended), daemon=True).start()
    print(f"serves as {os.environ['NNHAL_NAME']}", flush=True)
    ended.wait()
    server.stop(None)


def _obey(supervisor: int, ended: threading.Event) -> None:
    key = b""
    while not key.endswith(b"\n"):
        key += os.read(supervisor, 300)
    os.write(supervisor, b"RW")
    with contextlib.suppress(ConnectionResetError):  # the end of a supervisor that has not read everything
        os.read(supervisor, 1)
    ended.set()


if __name__ == "__main__":
    main()
