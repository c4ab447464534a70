"""The addresses that the server listens at, and what it needs if other hosts can reach them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class TcpListener:
    """A TCP address; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> TcpListener | None:
        """Read HOST:PORT, with an IPv6 address in brackets; None if it is not that."""
        host, separator, port = text.rpartition(":")
        if not separator or not host or not port.isdecimal() or int(port) > _LAST_PORT:
            return None
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def address(self) -> str:
        """The address as gRPC writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def require_safe(
    listener: TcpListener, has_tls: bool, has_tokens: bool, insecure: bool, tokens: str = "--tokens"
) -> None:
    """Raise ValueError if other hosts could reach the server without TLS and tokens, unless ``insecure`` allows it.

    ``tokens`` are the options that make clients known.
    """
    if listener.is_loopback or insecure or (has_tls and has_tokens):
        return
    missing = [name for name, there in (("--tls-certificate", has_tls), (tokens, has_tokens)) if not there]
    raise ValueError(
        f"{listener.address} can be reached by other hosts: expected {' and '.join(missing)}, or --insecure to do "
        "without on purpose"
    )
