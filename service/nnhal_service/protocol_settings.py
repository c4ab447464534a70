"""The service's settings in the forms that the parts of the model server take."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nnhal_hosting.access import AllowedHosts, LocalUsers, TcpListener, Tls, read_tokens, require_safe
from nnhal_hosting.connection_limits import ConnectionLimits
from nnhal_service.access import ClientRates, Guard, Rate, RateLimits
from nnhal_service.repository import RepositoryOptions
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.settings import ServiceSettings

HTTP, GRPC, METRICS = "http", "grpc", "metrics"
"""The servers. Those of HTTP and metrics can listen at sockets of a service manager; the gRPC server opens its own."""
NO_SOCKETS: Mapping[str, socket.socket] = MappingProxyType({})


def repository_options(settings: ServiceSettings) -> RepositoryOptions:
    """The options of the repository. Raises ValueError if they contradict one another."""
    return RepositoryOptions(
        tuple(path.resolve() for path in settings.model_repository),
        settings.model_control_mode,
        settings.load_model,
        settings.repository_poll_secs,
        settings.strict_readiness,
        settings.exit_on_error,
        settings.model_config_name,
        drain_seconds=settings.unload_secs,
        max_models=settings.max_models,
    )


def tls_of(settings: ServiceSettings) -> Tls | None:
    """The keys of TLS; None without TLS. Raises ValueError if a key is missing, OSError if a file cannot be read."""
    certificate, key, authority = settings.tls_certificate, settings.tls_key, settings.tls_client_authority
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-certificate and --tls-key go together, and --tls-client-authority needs both")
    tls = Tls(certificate, key, authority)
    tls.require_usable()
    return tls


def guard_of(settings: ServiceSettings, rates: ClientRates | None, refused: RefusedCalls) -> Guard:
    """Return the guard of all V2 servers, which counts what it refuses in ``refused``.

    Raises TokenFileError if the file of tokens is malformed.
    """
    tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
    return Guard(tokens, rates, refused=refused)


def rates_of(settings: ServiceSettings) -> RateLimits | None:
    """Return how often clients may call; None for any rate."""
    limit = settings.rate_limit
    return RateLimits(Rate(limit, max(1, round(limit)))) if limit else None


def check_passed(settings: ServiceSettings, passed: Mapping[str, socket.socket]) -> None:
    """Raise ValueError if a socket that a service manager passes is not one that a server listens at."""
    expected = [name for name, there in ((HTTP, settings.allow_http), (METRICS, settings.allow_metrics)) if there]
    for name, given in passed.items():
        if name not in expected:
            raise ValueError(
                f"a socket with the name {name!r} is passed, expected one of {', '.join(expected) or 'none'}"
            )
        if given.family not in (socket.AF_INET, socket.AF_INET6) or not given.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        ):
            raise ValueError(
                f"the socket {name!r} that is passed: expected one of TCP that listens, as ListenStream= has it"
            )


def listener_of(settings: ServiceSettings, protocol: str, passed: socket.socket | None = None) -> TcpListener:
    """Return the address of the server of ``http``, ``grpc`` or ``metrics``: that of a ``passed`` socket, if there is.

    Raises ValueError if clients of other hosts could use it without a token.
    """
    host, port = getattr(settings, f"{protocol}_host"), getattr(settings, f"{protocol}_port")
    if passed is not None:
        host, port = passed.getsockname()[:2]
    listener = TcpListener(host, port, f"--{protocol}-port ({protocol}_port of [framework] in a topology)")
    require_safe(listener, settings.tls_certificate is not None, settings.tokens is not None, settings.insecure)
    return listener


def hosts_of(settings: ServiceSettings, listener: TcpListener) -> AllowedHosts:
    """The names under which a port of HTTP may be addressed."""
    return AllowedHosts.of(listener, settings.tokens is not None, settings.allowed_hosts)


def users_of(settings: ServiceSettings, listener: TcpListener) -> LocalUsers | None:
    """The users of this host who may do everything at a port; None if that does not depend on the user."""
    shows_credentials = settings.tokens is not None or settings.tls_client_authority is not None
    return LocalUsers.of(listener, shows_credentials, settings.allowed_uids)


def connection_limits(settings: ServiceSettings) -> ConnectionLimits:
    return ConnectionLimits(
        settings.http_max_connections,
        settings.http_stalled_secs,
        settings.http_idle_secs,
        settings.http_max_head_size,
        settings.http_max_headers,
    )


def trace_start(settings: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Trace settings from ``NAME=VALUE``; a name without its prefix, such as ``level``, is for ``trace_level``.

    Raises ValueError if a setting has no value.
    """
    found: dict[str, list[str]] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise ValueError(f"trace setting {setting!r}: expected NAME=VALUE")
        key = name if name.startswith(("trace_", "log_")) else f"trace_{name}"
        found.setdefault(key, []).append(value)
    return found
