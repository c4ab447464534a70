"""Access to the administration of a process: those who have its admin key, as the user that runs it."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import grpc

from nnhal.admin import ADMIN_KEY_METADATA
from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_hosting.admin_keys import is_admin_key
from nnhal_hosting.sessions import Ownership, Sessions


class OperatorGuard:
    """Tells operators from clients, call by call. Safe to use from several threads."""

    def __init__(self, sessions: Sessions[Any], keys: Collection[str]) -> None:
        """``keys`` are the admin keys of the process; without one, nobody is its operator."""
        self._sessions = sessions
        self._keys = tuple(keys)

    def caller(self, context: grpc.ServicerContext) -> Ownership:
        """Return the session of a call. Raises INVALID_ARGUMENT if the call names no open session."""
        owner: Ownership = self._sessions.of(context)
        return owner

    def is_operator(self, context: grpc.ServicerContext) -> bool:
        """Return whether a call has the key. Raises INVALID_ARGUMENT if the call names no open session.

        Raises GENERAL_FAILURE if it has a key that does not count: a wrong one, or one in the hands of another user.
        """
        owner = self.caller(context)
        metadata: dict[str, Any] = dict(context.invocation_metadata())
        given = metadata.get(ADMIN_KEY_METADATA)
        if given is None:
            return False
        own = os.geteuid()
        if owner.session.uid != own:
            raise _refusal(
                f"an admin key counts for user {own} only, who runs the process; the call is of {owner.session.uid}"
            )
        if not self._keys:
            raise _refusal("the process has no admin key: it was started without a supervisor and without --admin-key")
        if not is_admin_key(str(given), self._keys):
            raise _refusal(f"the admin key in metadata {ADMIN_KEY_METADATA} is not that of this process")
        return True

    def require_operator(self, context: grpc.ServicerContext, act: str = "do this") -> None:
        """Refuse a call without the key; ``act`` says what only an operator may do. Raises as ``is_operator``.

        Raises GENERAL_FAILURE if the call has no key.
        """
        if not self.is_operator(context):
            raise _refusal(
                f"only an operator may {act}: the call has no admin key "
                f"(expected metadata {ADMIN_KEY_METADATA}, from the supervisor or --admin-key)"
            )


def _refusal(message: str) -> HalError:
    return HalError(ErrorStatus.GENERAL_FAILURE, message)
