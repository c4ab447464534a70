"""``python -m tests.support.held_interpreter``: serves, and never lets the interpreter go from then on."""

from __future__ import annotations

import argparse
import ctypes
import threading

from nnhal_hosting.supervision import Supervision, add_supervision_argument

_SECONDS = 600


def _hold() -> None:
    ctypes.PyDLL(None).sleep(_SECONDS)  # as a driver's call in C that does not end


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_supervision_argument(parser)
    supervision = Supervision(parser.parse_args().supervisor)
    supervision.ready()
    threading.Thread(target=_hold, daemon=True).start()
    supervision.wait()
