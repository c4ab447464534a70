"""Asks the process's own listeners, over real connections, whether they still answer.

A server can be silent although nothing of it has ended. One that is silent while the event loop is not will not come
back; one whose loop does not answer is busy, or the machine is, and that says nothing about the server.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from nnhal_service.serving.loop import ServingLoop

_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 5.0
_MOST_FAILURES = 4
"""A listener that is silent so often, one time after another, is given up."""
Ask = Callable[[], None]
"""Returns if a listener answers, whatever it says. Raises OSError if it does not."""


class ListenerWatch:
    """Asks listeners in a thread. Use it as a context, inside that of what listens."""

    def __init__(self, loop: ServingLoop, listeners: Mapping[str, Ask], pause: float = _PAUSE_SECONDS) -> None:
        """``loop`` is told of a listener, by its name, that does not answer any more."""
        self._loop = loop
        self._listeners = listeners
        self._pause = pause
        self._failures = dict.fromkeys(listeners, 0)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="listener-watch", daemon=True)

    def __enter__(self) -> ListenerWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()  # the thread may be asking, and ends by itself

    def _watch(self) -> None:
        while not self._leaving.wait(self._pause):
            for name, ask in self._listeners.items():
                if self._is_silent(ask):
                    self._failures[name] += 1
                else:
                    self._failures[name] = 0
                if self._failures[name] >= _MOST_FAILURES and not self._leaving.is_set():
                    self._loop.call(lambda name=name: self._loop.server_ended(name))  # type: ignore[misc]
                    return

    def _is_silent(self, ask: Ask) -> bool:
        try:
            ask()
        except OSError:
            answered = threading.Event()
            with suppress(RuntimeError):  # the loop has been closed
                self._loop.call(answered.set)
            return answered.wait(_PATIENCE_SECONDS / 5)
        return False


def asks_grpc(address: str) -> Ask:
    """Ask a listener of gRPC without TLS for its health."""

    def ask() -> None:
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_PATIENCE_SECONDS)
            except grpc.RpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise OSError(f"no answer at {address}") from error

    return ask


def asks_http(host: str, port: int, has_tls: bool) -> Ask:
    """Ask a listener of HTTP anything."""

    def ask() -> None:
        connection = _connection(host, port, has_tls)
        try:
            connection.request("GET", "/v2/health/live")
            connection.getresponse()
        except (HTTPException, ssl.SSLError):  # it has answered
            pass
        finally:
            connection.close()

    return ask


def _connection(host: str, port: int, has_tls: bool) -> HTTPConnection:
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not has_tls:
        return HTTPConnection(reached, port, timeout=_PATIENCE_SECONDS)
    return HTTPSConnection(reached, port, timeout=_PATIENCE_SECONDS, context=ssl._create_unverified_context())
