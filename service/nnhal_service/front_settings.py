"""Settings as the parts of the front door take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnhal_service.access import Guard, Listener, Rate, RateLimits, Tls, read_tokens, require_safe
from nnhal_service.repository import RepositoryOptions
from nnhal_service.settings import ServiceSettings

if TYPE_CHECKING:
    from nnhal_service.v2.http import ConnectionLimits


def repository_options(settings: ServiceSettings) -> RepositoryOptions:
    """Raises ValueError."""
    return RepositoryOptions(
        tuple(path.resolve() for path in settings.model_repository),
        settings.model_control_mode,
        settings.load_model,
        settings.repository_poll_secs,
        settings.strict_readiness,
        settings.exit_on_error,
        settings.model_config_name,
        max_models=settings.max_models,
    )


def tls_of(settings: ServiceSettings) -> Tls | None:
    """Raises ValueError or OSError."""
    certificate, key, authority = settings.tls_certificate, settings.tls_key, settings.tls_client_authority
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-certificate and --tls-key go together, and --tls-client-authority needs both")
    tls = Tls(certificate, key, authority)
    tls.require_usable()
    return tls


def guard_of(settings: ServiceSettings) -> Guard:
    """Raises TokenFileError."""
    tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
    return Guard(tokens, rates_of(settings))


def rates_of(settings: ServiceSettings) -> RateLimits | None:
    """How often clients may come; None where that is as often as they like."""
    limit = settings.rate_limit
    return RateLimits(Rate(limit, max(1, round(limit)))) if limit else None


def listener_of(settings: ServiceSettings, host: str, port: int) -> Listener:
    """Raises ValueError where others could come in who should not."""
    listener = Listener(host, port)
    require_safe(listener, settings.tls_certificate is not None, settings.tokens is not None, settings.insecure)
    return listener


def connection_limits(settings: ServiceSettings) -> ConnectionLimits:
    """Of each front over HTTP."""
    # A framework without a repository has no fronts.
    from nnhal_service.v2.http import ConnectionLimits

    return ConnectionLimits(settings.http_max_connections, settings.http_stalled_secs, settings.http_idle_secs)


def trace_start(settings: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Trace settings from ``KEY=VALUE``; ``level`` stands for ``trace_level``, as Triton has it, and so on.

    Raises ValueError.
    """
    found: dict[str, list[str]] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise ValueError(f"trace setting {setting!r}: expected NAME=VALUE")
        key = name if name.startswith(("trace_", "log_")) else f"trace_{name}"
        found.setdefault(key, []).append(value)
    return found
