"""Serves an application over HTTP, in a thread of this process."""

from __future__ import annotations

import math
import socket
import ssl
import threading
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp

from nnhal_service.access import TcpListener, Tls
from nnhal_service.v2.http.connections import ConnectionLimiter, ConnectionLimits

_GRACE_SECONDS = 2
_BACKLOG = 2048


class HttpServer:
    """The HTTP server. Use it as a context: entering serves, leaving ends the requests that run."""

    def __init__(
        self, listener: TcpListener, app: ASGIApp, tls: Tls | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        """Raises OSError if the address cannot be listened at."""
        self._socket = socket.create_server(
            (listener.host, listener.port),
            family=socket.AF_INET6 if ":" in listener.host else socket.AF_INET,
            backlog=_BACKLOG,
        )
        self.listener = TcpListener(listener.host, self._socket.getsockname()[1])
        """The given listener, with the chosen port."""
        limits = limits or ConnectionLimits()
        limiter = ConnectionLimiter(limits)
        config = uvicorn.Config(
            limiter.application(app),
            loop="uvloop",
            http=limiter.protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # a malformed request is no warning of the server
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client that names another peer would evade its rate limit
            timeout_keep_alive=math.ceil(limits.idle_seconds),
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.key if tls else None,
            ssl_ca_certs=str(tls.client_authority) if tls and tls.client_authority else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_authority else ssl.CERT_NONE,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def __enter__(self) -> HttpServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
