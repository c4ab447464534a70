"""Access to a process over TCP, and rights of its clients: listeners, TLS, hosts and origins, tokens and roles."""

from nnhal_hosting.access.hosts import AllowedHosts, HostName, objection_to_page
from nnhal_hosting.access.listeners import TcpListener, require_safe
from nnhal_hosting.access.local_users import LocalUsers, peer_name, tcp_address
from nnhal_hosting.access.tls import Tls
from nnhal_hosting.access.tokens import AccessRole, Identity, TokenFileError, Tokens, read_tokens

__all__ = [
    "AccessRole",
    "AllowedHosts",
    "HostName",
    "Identity",
    "LocalUsers",
    "TcpListener",
    "Tls",
    "TokenFileError",
    "Tokens",
    "objection_to_page",
    "peer_name",
    "read_tokens",
    "require_safe",
    "tcp_address",
]
