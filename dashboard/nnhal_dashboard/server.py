"""The dashboard's process: what it asks, and the port that it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

import uvicorn

from nnhal.endpoint import Endpoint
from nnhal.threads import BriefThread
from nnhal_dashboard.access.visitors import Visitors
from nnhal_dashboard.app import create_app
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.settings import DashboardSettings
from nnhal_hosting.access import AllowedHosts, LocalUsers, TcpListener, Tls, read_tokens, require_safe
from nnhal_hosting.admin_keys import read_admin_key
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_hosting.http import ConnectionLimiter
from nnhal_hosting.listener_watch import ListenerWatch, asks_http
from nnhal_hosting.server import use_all_descriptors

_STOP_SECONDS = 2


class DashboardServer:
    """Serves the dashboard. Use it as a context. ``address`` is where browsers reach it."""

    def __init__(
        self, settings: DashboardSettings, end_process: Callable[[], None] = lambda: None, option: str = "--port"
    ) -> None:
        """Listen. ``end_process`` is called if the server has ended by itself; the process is then to be started again.
        ``option`` is what sets the port, which errors name.

        Raises OSError if the port or a file cannot be used, ValueError if the settings are not safe."""
        use_all_descriptors()
        Endpoint(settings.directory / "supervisor").trusted()  # its processes get the admin key
        tls = _tls_of(settings)
        tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
        listener = TcpListener(settings.host, settings.port, option)
        require_safe(listener, tls is not None, tokens is not None, settings.insecure)
        hosts = AllowedHosts.of(listener, tokens is not None, settings.allowed_host)
        self._collector = Collector(settings, read_admin_key(settings.admin_key) if settings.admin_key else "")
        self._socket = listener.listen()
        bound = TcpListener(settings.host, self._socket.getsockname()[1])
        users = LocalUsers.of(bound, tokens is not None, settings.allowed_uids)
        app, self._streams = create_app(settings, self._collector, Visitors(tokens), hosts, users, tls is not None)
        limiter = ConnectionLimiter(ConnectionLimits(settings.max_connections))
        config = uvicorn.Config(
            app,
            http=limiter.protocol(),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # a client that names another peer would pass for its user
            timeout_graceful_shutdown=_STOP_SECONDS,
            ssl_certfile=tls.certificate if tls is not None else None,
            ssl_keyfile=tls.key if tls is not None else None,
        )
        self._server = uvicorn.Server(config)
        self.address = f"{'https' if tls is not None else 'http'}://{bound.address}"
        self._watch = ListenerWatch(lambda _: end_process())
        self._watch.add(self.address, asks_http(bound.address, tls is not None))
        self._thread = BriefThread(self._serve, "pages")
        self._end_process = end_process
        self._stops = False
        self._undo = ExitStack()

    def __enter__(self) -> DashboardServer:
        self._undo.callback(self._socket.close)
        self._undo.enter_context(self._collector)
        self._thread.start()
        self._undo.enter_context(self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stops = self._server.should_exit = True
        self._streams.close()
        self._thread.join()
        self._undo.close()

    def _serve(self) -> None:
        try:
            asyncio.run(self._server.serve([self._socket]))
        finally:
            if not self._stops:
                self._end_process()


def _tls_of(settings: DashboardSettings) -> Tls | None:
    if settings.tls_certificate is None and settings.tls_key is None:
        return None
    if settings.tls_certificate is None or settings.tls_key is None:
        raise ValueError("expected both --tls-certificate and --tls-key, or neither")
    tls = Tls(settings.tls_certificate, settings.tls_key)
    tls.require_usable()
    return tls
