"""The check that every V2 server makes of a call before it serves it."""

from __future__ import annotations

from nnhal.inference.datatypes import TensorError
from nnhal_hosting.access.local_users import LocalUsers
from nnhal_hosting.access.tokens import AccessRole, Identity, Tokens
from nnhal_service.access.rates import TOO_OFTEN, ClientRates, host_client, token_client
from nnhal_service.serving.errors import ErrorKind, ServingError, TooLargeError
from nnhal_service.serving.history.refused_calls import RefusedCalls

_REASONS = {
    ErrorKind.UNAUTHENTICATED: "no known token",
    ErrorKind.PERMISSION_DENIED: "not allowed",
    ErrorKind.NOT_FOUND: "not found",
    ErrorKind.UNSUPPORTED: "not supported",
    ErrorKind.INVALID_ARGUMENT: "malformed",
}
"""Why calls are refused, by the kinds of their errors."""
_EVERYBODY = Identity("", AccessRole.ADMIN)


class Guard:
    """Checks tokens, users, roles and rates. Safe to use from several threads."""

    def __init__(
        self,
        tokens: Tokens | None = None,
        rates: ClientRates | None = None,
        users: LocalUsers | None = None,
        refused: RefusedCalls | None = None,
    ) -> None:
        """Without ``tokens``, ``users`` may do everything; without these too, every client that reaches the server.

        ``refused`` counts the calls that are refused.
        """
        self._refused = refused or RefusedCalls()
        self._tokens = tokens
        self._rates = rates
        self._users = users

    def of_users(self, users: LocalUsers | None) -> Guard:
        """Return the same guard, for a port of these users."""
        return Guard(self._tokens, self._rates, users, self._refused)

    @property
    def asks_for_tokens(self) -> bool:
        """Return whether ``authorization`` has a meaning."""
        return self._tokens is not None

    @property
    def has_rules(self) -> bool:
        """Return whether it ever refuses a call."""
        return self._tokens is not None or self._rates is not None or self._users is not None

    def admit(self, needed: AccessRole, authorization: str, peer: str, user_is_admitted: bool = False) -> Identity:
        """Return the identity of the caller. ``authorization`` is the header or empty, ``peer`` the caller's address.
        ``user_is_admitted`` says that it has been admitted on the same connection: the kernel would say the same again.

        Raises UNAUTHENTICATED without a known token, PERMISSION_DENIED if the token's role is too low or another user
        of this host asks, and RESOURCE_EXHAUSTED if the client calls too often. Each token has its own rate, without
        tokens each host.
        """
        if needed == AccessRole.NOBODY:
            return Identity("", AccessRole.NOBODY)
        if self._users is not None and not user_is_admitted:
            objection = self._users.objection(peer)
            if objection:
                raise ServingError(ErrorKind.PERMISSION_DENIED, objection)
        identity = _EVERYBODY if self._tokens is None else self._tokens.identity(authorization)
        if identity is None:
            got = "one that is not known" if authorization else "none"
            raise ServingError(ErrorKind.UNAUTHENTICATED, f"this needs a bearer token, got {got}")
        if identity.role < needed:
            raise ServingError(
                ErrorKind.PERMISSION_DENIED,
                f"token '{identity.name}' has role {identity.role.name.lower()}, expected {needed.name.lower()}",
            )
        if self._rates is not None:
            client = token_client(identity.name) if identity.name else host_client(peer)
            if not self._rates.admit(client):
                raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, TOO_OFTEN)
        return identity

    def note_refused(self, error: Exception, authorization: str, peer: str) -> None:
        """Count a call that ends with an error, if it was refused before a model ran, by its token or else its host."""
        reason = _reason_of(error)
        if reason:
            identity = self._identity(authorization)
            name = identity.name if identity is not None else ""
            self._refused.add(reason, token_client(name) if name else host_client(peer))

    def allows(self, needed: AccessRole, authorization: str) -> bool:
        """Return whether the caller's token has a role. The call itself may need another one."""
        identity = self._identity(authorization)
        return identity is not None and identity.role >= needed

    def _identity(self, authorization: str) -> Identity | None:
        return _EVERYBODY if self._tokens is None else self._tokens.identity(authorization)


def _reason_of(error: Exception) -> str:
    """Return why a call was refused, in a few words; empty if it was not, but failed."""
    if isinstance(error, TooLargeError):
        return "too large"
    if isinstance(error, TensorError):
        return _REASONS[ErrorKind.INVALID_ARGUMENT]
    if not isinstance(error, ServingError):
        return ""
    if error.kind is ErrorKind.RESOURCE_EXHAUSTED:
        return "too often" if error.message == TOO_OFTEN else ""
    return _REASONS.get(error.kind, "")
