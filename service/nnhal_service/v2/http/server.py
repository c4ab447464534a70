"""Serving an application over HTTP, in threads of this process."""

from __future__ import annotations

import math
import socket
import ssl
import threading
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp

from nnhal_service.access import TcpListener, Tls
from nnhal_service.v2.http.connections import ConnectionLimits, protocol_with

_GRACE_SECONDS = 2
_BACKLOG = 2048


class HttpServer:
    """Use as a context: entering serves, leaving ends what runs."""

    def __init__(
        self, listener: TcpListener, app: ASGIApp, tls: Tls | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        """Raises OSError where the address cannot be listened at."""
        self._socket = socket.create_server(
            (listener.host, listener.port),
            family=socket.AF_INET6 if ":" in listener.host else socket.AF_INET,
            backlog=_BACKLOG,
        )
        self.listener = TcpListener(listener.host, self._socket.getsockname()[1])
        """As it was given, with the port that was chosen."""
        limits = limits or ConnectionLimits()
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=protocol_with(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # a request that is none is the client's business
            access_log=False,
            server_header=False,
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
