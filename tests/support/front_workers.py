"""Front workers of a framework process, from the outside."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil

from nnhal_hosting.supervision import Child
from tests.support.model_server import Served
from tests.support.repositories import numbers

MODULE = "nnhal_service.front_workers"
_MOST_CONNECTIONS = 200
"""So many connections in a row do not go to one of two workers."""


class Connection:
    """One connection of HTTP, which one process serves."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self._connection.connect()
        self.port = self._connection.sock.getsockname()[1]

    def ask(self, path: str, message: object = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of the answer to a POST if there is a message, else to a GET."""
        body = None if message is None else json.dumps(message)
        self._connection.request("GET" if message is None else "POST", path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None

    def infer(self, model: str = "tanh", request_id: str = "", **headers: str) -> tuple[int, Any]:
        """Run a model of one input ``x`` that is FP32."""
        x = numbers()
        given = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.reshape(-1).tolist()}
        return self.ask(f"/v2/models/{model}/infer", {"id": request_id, "inputs": [given]}, **headers)

    def close(self) -> None:
        self._connection.close()


def workers_of(child: Child) -> set[int]:
    forked = psutil.Process(child.pid).children(recursive=True)
    return {process.pid for process in forked if f"-m {MODULE} " in _command(process)}


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@contextmanager
def each(served: Served) -> Iterator[Mapping[int, Connection]]:
    """A connection to each worker, by the worker's process, until the context ends."""
    workers = workers_of(served.child)
    found: dict[int, Connection] = {}
    with ExitStack() as stack:
        for _ in range(_MOST_CONNECTIONS):
            connection = stack.enter_context(closing(Connection(served.http)))
            connection.ask("/v2/health/live")
            pid = server_of(connection.port, served.port, workers)
            if found.setdefault(pid, connection) is not connection:
                connection.close()
            if found.keys() == workers:
                yield found
                return
    raise AssertionError(f"{_MOST_CONNECTIONS} connections went to {sorted(found)}, expected {sorted(workers)}")


def server_of(client: int, server: int, processes: set[int]) -> int:
    """Return which of the processes has the server's end of a connection, by the ports of its ends."""
    for local, remote, fields in _sockets():
        if (local, remote) == (server, client):
            (pid,) = [pid for pid in processes if f"socket:[{fields[9]}]" in _files(pid)]
            return pid
    raise AssertionError(f"there is no connection from port {client} to port {server}")


def refuses(served: Served) -> bool:
    """Return whether nobody listens at the port of HTTP any more."""
    try:
        with closing(Connection(served.http)):
            return False
    except ConnectionRefusedError:
        return True


def _sockets() -> Iterator[tuple[int, int, list[str]]]:
    """The ports of both ends of each TCP socket, and its row in the kernel's table."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(fields[column].rpartition(":")[2], 16) for column in (1, 2))
        yield local, remote, fields


def _files(pid: int) -> set[str]:
    return {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
