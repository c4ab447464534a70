"""Serves an application over HTTP, in the event loop."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp

from nnhal_hosting.access import TcpListener, Tls
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http import ConnectionLimiter
from nnhal_hosting.shared_numbers import SharedNumber
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.v2.http.app import ProtocolApp

_GRACE_SECONDS = 2
_BACKLOG = 2048
_NEVER_SECONDS = 1 << 30


class HttpServer:
    """The HTTP server. Use it as a context: entering serves, leaving ends the requests that run."""

    def __init__(
        self,
        listener: TcpListener,
        app: Callable[[TcpListener], ASGIApp],
        loop: ServingLoop,
        tls: Tls | None = None,
        limits: ConnectionLimits | None = None,
        connections: SharedNumber | None = None,
        inherited: socket.socket | None = None,
    ) -> None:
        """``app`` makes the application for the listener with its chosen port. ``connections`` are those that are open,
        if other processes listen at the port too. ``inherited`` is a socket that listens at the address already, and
        belongs to this object from now on.

        Raises OSError if the address cannot be listened at.
        """
        self._socket = inherited or listener.listen(_BACKLOG)
        self.listener = TcpListener(listener.host, self._socket.getsockname()[1])
        """The given listener, with the chosen port."""
        limits = limits or ConnectionLimits()
        served = app(self.listener)
        whole_requests = served.whole_requests if isinstance(served, ProtocolApp) else None
        limiter = ConnectionLimiter(limits, connections, whole_requests)
        config = uvicorn.Config(
            served,
            http=limiter.protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # a malformed request is no warning of the server
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client that names another peer would evade its rate limit
            timeout_keep_alive=_NEVER_SECONDS,  # the limiter closes idle connections, of which uvicorn sees only a part
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=str(tls.client_authority) if tls and tls.client_authority else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_authority else ssl.CERT_NONE,
        )
        self._server = uvicorn.Server(config)
        self._loop = loop
        self._serving: Future[None] | None = None

    def __enter__(self) -> HttpServer:
        self._serving = self._loop.submit(self._serve())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            self._serving.result()
        self._socket.close()

    async def _serve(self) -> None:
        try:
            await self._server.serve([self._socket])
        finally:
            if not self._server.should_exit:
                self._loop.server_ended(f"HTTP at {self.listener.address}")
