"""What is asked of a directory, of a socket, and of an address."""

from __future__ import annotations

import os

from nnhal_tools.health.failure import Unhealthy
from nnhal_tools.health.page import require_page
from nnhal_tools.health.rpc import require_serving

_SERVERS = ("device.sock", "framework.sock", "inference.sock")
"""The sockets of gRPC in a process's directory; the last is there when the framework serves a repository."""


def require_healthy(target: str, seconds: float) -> None:
    """Raise Unhealthy unless the processes at a target answer that they serve.

    ``target`` is the directory of a device or of the framework, the path of a socket of gRPC, or a URL.
    """
    if target.startswith(("http://", "https://")):
        require_page(target, seconds)
        return
    if not os.path.isdir(target):
        require_serving(target, seconds)
        return
    paths = [path for name in _SERVERS if os.path.exists(path := os.path.join(target, name))]
    if not paths:
        raise Unhealthy(f"none of {', '.join(_SERVERS)} is there")
    for path in paths:
        try:
            require_serving(path, seconds)
        except Unhealthy as failure:
            raise Unhealthy(f"{os.path.basename(path)}: {failure}") from None
