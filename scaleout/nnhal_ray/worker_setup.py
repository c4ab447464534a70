"""Set up every process of Ray Serve on a node of ours: where it listens, and that no stream is asked again.

Ray calls it by the variable that ``nodes.environment`` sets. It changes two things for which Serve 2.60 has no setting;
the extra ``ray`` pins that version, and a template that is another one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import ray
from ray.serve._private import haproxy

from nnhal.errors import NnhalError
from nnhal_ray.protocol import SERVICE, STREAM

LOOPBACK = "127.0.0.1"
_ANY = "[::]:"
_OWN_RULES = f"""
    # A request may come to a second host, since the first did not answer; a stream comes to one only.
    http-request disable-l7-retry if {{ path /{SERVICE.full_name}/{STREAM} }}"""
_CHANGES = {
    "    bind :{{ config.metrics_port }}": "    bind 127.0.0.1:{{ config.metrics_port }}",
    "  bind *:{{ config.stats_port }}": "  bind 127.0.0.1:{{ config.stats_port }}",
    "    bind {{ config.frontend_host }}:{{ config.frontend_port }}": (
        "    bind {{ config.frontend_host }}:{{ config.frontend_port }}" + _OWN_RULES
    ),
    "    bind {{ config.grpc_frontend_host }}:{{ config.grpc_frontend_port }} proto h2": (
        "    bind {{ config.grpc_frontend_host }}:{{ config.grpc_frontend_port }} proto h2" + _OWN_RULES
    ),
}
"""Lines of HAProxy's configuration, and what stands in their place."""


class OtherRayError(NnhalError):
    """This Ray is not the one that the package was made for."""


def set_up() -> None:
    """Change what this process does, whatever of Serve it becomes. Raises OtherRayError."""
    haproxy.HAPROXY_CONFIG_TEMPLATE = balancer_template(haproxy.HAPROXY_CONFIG_TEMPLATE)
    if ray.util.get_node_ip_address() == LOOPBACK:
        server = import_module("grpc.aio._server").Server  # the stubs of gRPC have no such module
        for name in ("add_insecure_port", "add_secure_port"):
            setattr(server, name, _listening_here(getattr(server, name)))


def balancer_template(template: str) -> str:
    """The template of HAProxy's configuration with the lines of ours. Raises OtherRayError if one is missing."""
    for old, new in _CHANGES.items():
        if template.count(f"{old}\n") != 1:
            raise OtherRayError(f"HAProxy's configuration has no line {old.strip()!r}; pip install 'nnhal[ray]'")
        template = template.replace(f"{old}\n", f"{new}\n")
    return template


def _listening_here(add: Callable[..., int]) -> Callable[..., int]:
    """Have a server that would listen at all interfaces listen at the loopback: no other host has a part in this."""

    def add_port(server: Any, address: str, *credentials: Any) -> int:
        here = f"{LOOPBACK}:{address.removeprefix(_ANY)}" if address.startswith(_ANY) else address
        return add(server, here, *credentials)

    return add_port
