"""Admission to sessions of the wire: TLS, certificates of clients, tokens, users of this host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import grpc

from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.access import AccessRole, LocalUsers, TcpListener, Tls, Tokens, read_tokens, require_safe

_LONGEST_NAME = 64


class WireCaller(NamedTuple):
    """A client on another host."""

    name: str
    """The name of its token or certificate; empty without either."""
    address: str
    """Where it calls from."""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0] or self.address

    def titled(self, client_name: str) -> str:
        """Return what operators are shown: the client's own name for itself, and who it is."""
        own = "".join(letter for letter in client_name[:_LONGEST_NAME] if letter.isprintable()) or "a framework"
        return f"{own} from {self.address}" + (f" as {self.name}" if self.name else "")


@dataclass(frozen=True, slots=True)
class WireDoor:
    """The address of the wire, and what clients must show there."""

    listener: TcpListener
    tls: Tls | None = None
    tokens: Tokens | None = None
    allowed_uids: tuple[int, ...] = ()
    """Users of this host who may use it without either, besides this one and root."""
    users: LocalUsers | None = None
    """These users, once the port is chosen; None if it does not depend on the user."""

    @classmethod
    def of(cls, settings: DeviceSettings) -> WireDoor | None:
        """The door of a device process; None if it does not listen.

        Raises ValueError if the settings contradict one another or are not safe, OSError if a file cannot be read,
        TokenFileError if that of the tokens is malformed.
        """
        tls = _tls_of(settings)
        if not settings.listen:
            return None
        listener = _listener(settings.listen)
        tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
        is_known = tokens is not None or settings.tls_client_ca is not None
        require_safe(listener, tls is not None, is_known, settings.insecure, "--tokens or --tls-client-ca")
        return cls(listener, tls, tokens, settings.allowed_uids)

    def at(self, port: int) -> WireDoor:
        """Return the same door at the port that was chosen."""
        listener = TcpListener(self.listener.host, port)
        shows_credentials = self.tokens is not None or (self.tls is not None and self.tls.client_authority is not None)
        return replace(self, listener=listener, users=LocalUsers.of(listener, shows_credentials, self.allowed_uids))

    def admit(self, context: grpc.ServicerContext) -> WireCaller:
        """Return the caller. Aborts the call with UNAUTHENTICATED or PERMISSION_DENIED if it may not run models."""
        metadata = {str(key): value for key, value in context.invocation_metadata()}
        address = unquote(context.peer()).removeprefix("ipv4:").removeprefix("ipv6:")
        objection = self.users.objection(context.peer()) if self.users is not None else ""
        if objection:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, objection)
        if self.tokens is None:
            return WireCaller(_certificate_name(context), address)
        identity = self.tokens.identity(str(metadata.get("authorization", "")))
        if identity is None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "expected a known token, as 'Authorization: Bearer TOKEN'")
        if identity.role < AccessRole.INFER:
            context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"token {identity.name!r} has role {identity.role.name.lower()}, expected infer or admin",
            )
        return WireCaller(identity.name, address)


def _certificate_name(context: grpc.ServicerContext) -> str:
    shown: Any = context.auth_context()
    return b"".join(shown.get("x509_common_name", ())[:1]).decode(errors="replace")


def _listener(text: str) -> TcpListener:
    listener = TcpListener.parse(text)
    if listener is None:
        raise ValueError(f"--listen {text!r}: expected HOST:PORT, with port 0 for any free one")
    return replace(listener, option="--listen")


def _tls_of(settings: DeviceSettings) -> Tls | None:
    certificate, key, authority = settings.tls_certificate, settings.tls_key, settings.tls_client_ca
    given = [certificate, key, authority, settings.tokens]
    if not settings.listen and (any(path is not None for path in given) or settings.insecure):
        raise ValueError("TLS, tokens and --insecure are for --listen HOST:PORT, which is missing")
    if certificate is None and key is None and authority is None:
        return None
    if certificate is None or key is None:
        raise ValueError("--tls-certificate and --tls-key go together, and --tls-client-ca needs both")
    tls = Tls(certificate, key, authority)
    tls.require_usable()
    return tls
