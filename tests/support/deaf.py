"""``python -m tests.support.deaf LISTENER MODULE ARGUMENT…``: a process of which a listener does not answer.

MODULE may be ``nnhal``, which is the command.
LISTENER is ``grpc``, ``links``, ``wire`` or ``http``. The process looks at its listeners many times a second.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from typing import Any

from nnhal_hosting import listener_watch


async def _never(*_: object) -> None:
    await asyncio.Event().wait()


def _deafen(listener: str) -> None:
    if listener == "grpc":
        from grpc import _server

        patched: Any = _server
        patched._serve = lambda _: None
    elif listener == "links":
        from nnhal_hosting.link_server import LinkServer

        LinkServer._accept = lambda _: None  # type: ignore[method-assign, assignment]
    elif listener == "wire":
        from nnhal_devices.host.wire.server import WireServer

        WireServer.__enter__ = lambda self: self  # type: ignore[method-assign]
    else:
        import uvicorn

        uvicorn.Server.serve = _never  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    watch: Any = listener_watch.ListenerWatch.__init__
    watch.__defaults__ = (*watch.__defaults__[:-1], 0.05)
    listener_watch._PATIENCE_SECONDS = 0.3
    _, chosen, module, *rest = sys.argv
    _deafen(chosen)
    sys.argv = [module, *rest]
    if module == "nnhal":
        from nnhal_tools.cli import main

        main()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
