"""The one question that every front asks of a call before it is served."""

from __future__ import annotations

from nnhal_service.access.rates import TOO_OFTEN, RateLimits
from nnhal_service.access.roles import Role
from nnhal_service.access.tokens import Identity, Tokens
from nnhal_service.serving.errors import ErrorKind, ServingError

_ANYBODY = Identity("", Role.ADMIN)


class Guard:
    """Checks tokens, roles and rates. Safe to use from several threads."""

    def __init__(self, tokens: Tokens | None = None, rates: RateLimits | None = None) -> None:
        """Without tokens everybody who reaches the server may do everything."""
        self._tokens = tokens
        self._rates = rates

    @property
    def has_rules(self) -> bool:
        """Whether it ever refuses anybody."""
        return self._tokens is not None or self._rates is not None

    def admit(self, needed: Role, authorization: str, peer: str) -> Identity:
        """Who calls. ``authorization`` is the header, empty without one, and ``peer`` the address.

        Raises UNAUTHENTICATED without a token that is known, PERMISSION_DENIED for one that may not do this, and
        RESOURCE_EXHAUSTED where the client calls too often; each token has a rate of its own, else each host.
        """
        if needed == Role.NOBODY:
            return Identity("", Role.NOBODY)
        identity = _ANYBODY if self._tokens is None else self._tokens.identity(authorization)
        if identity is None:
            got = "one that is not known" if authorization else "none"
            raise ServingError(ErrorKind.UNAUTHENTICATED, f"this needs a bearer token, got {got}")
        if identity.role < needed:
            raise ServingError(
                ErrorKind.PERMISSION_DENIED,
                f"token '{identity.name}' has role {identity.role.name.lower()}, expected {needed.name.lower()}",
            )
        if self._rates is not None and not self._rates.admit(identity.name or _host(peer)):
            raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, TOO_OFTEN)
        return identity


def _host(peer: str) -> str:
    """The peer without its port: who opens many connections has one bucket."""
    return peer.rpartition(":")[0]
