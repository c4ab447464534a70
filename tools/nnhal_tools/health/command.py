"""The command line. It is read by hand, since argparse would take longer than the question."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from nnhal_hosting.asking import Unhealthy, require_page, require_serving

USAGE = """usage: nnhal health [--timeout SECONDS] TARGET…

Ask processes whether they serve; exit with 0 if all do, with 1 and the reason if one does not.

TARGET is the directory of a device or of the framework, the path of a socket of gRPC, or a URL, as in
  nnhal health /run/nnhal/cpu_ref
  nnhal health http://127.0.0.1:8000/v2/health/ready
Of a directory all servers are asked. The framework's is healthy when the models of its repository are ready.
--timeout is how long to wait for an answer, each time (default 5)."""
_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    """Ask each target. Returns 0 if all are healthy, 1 if one is not, 2 if the arguments are wrong."""
    targets, seconds = list(arguments), _SECONDS
    if "--help" in targets:
        print(USAGE)
        return 0
    if targets[:1] == ["--timeout"]:
        seconds, targets = _seconds(targets[1:2]), targets[2:]
    if not seconds or not targets or any(target.startswith("-") for target in targets):
        print(f"nnhal health: got {' '.join(arguments) or 'no arguments'}\n{USAGE}", file=sys.stderr)
        return 2
    unhealthy = 0
    for target in targets:
        try:
            require_healthy(target, seconds)
        except Unhealthy as failure:
            print(f"nnhal health: {target}: {failure}", file=sys.stderr)
            unhealthy = 1
    return unhealthy


def _seconds(words: Sequence[str]) -> float:
    """A number above zero, or 0 if it is none."""
    try:
        number = float(words[0])
    except (IndexError, ValueError):
        return 0.0
    return number if 0 < number < 1e6 else 0.0


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
