"""The addresses that the server listens at, and what it needs if other hosts can reach them."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass, field

_LAST_PORT = 65535
_BACKLOG = 128
_REASONS = {
    errno.EADDRINUSE: "the port is in use by another process",
    errno.EADDRNOTAVAIL: "this host does not have the address",
    errno.EACCES: "this user may not use the port",
}


@dataclass(frozen=True, slots=True)
class TcpListener:
    """A TCP address; port 0 lets the system choose. ``option`` is what sets the port, which errors name."""

    host: str
    port: int
    option: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> TcpListener | None:
        """Read HOST:PORT, with an IPv6 address in brackets; None if it is not that."""
        host, separator, port = text.rpartition(":")
        if not separator or not host or not port.isdecimal() or int(port) > _LAST_PORT:
            return None
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    @property
    def is_loopback(self) -> bool:
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

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def listen(self, backlog: int = _BACKLOG) -> socket.socket:
        """Return a socket that listens there. Raises OSError, which says why that cannot be."""
        try:
            return socket.create_server((self.host, self.port), family=self.family, backlog=backlog)
        except OSError as error:
            raise self._refused(error) from error

    def require_free(self) -> None:
        """Raise the same errors as ``listen`` if something else listens there, before gRPC says it in several lines."""
        with socket.socket(self.family) as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may linger
            try:
                bound.bind((self.host, self.port))
            except OSError as error:
                raise self._refused(error) from error

    def _refused(self, error: OSError) -> OSError:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        way_out = f"; {self.option} names another, and port 0 takes any that is free" if self.option else ""
        return OSError(f"cannot listen at {self.address}: {reason}{way_out}")


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
