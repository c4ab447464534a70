"""Browsers by their cookie: who they are, and what was told them last."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from hashlib import sha256

from nnhal_hosting.access import AccessRole, Identity, Tokens

COOKIE = "nnhal_dashboard"
"""The name of the cookie; ``cookie_of`` has more."""
IDLE_SECONDS = 3600.0
"""A browser that shows nothing for so long must sign in again."""
_MOST = 4096
"""Browsers that are known at a time; of those that have not signed in, the one that was idle longest is forgotten."""
_SECRET = secrets.token_bytes(32)
_EVERYBODY = Identity("", AccessRole.ADMIN)


def cookie_of(host: str) -> str:
    """Return the name of the cookie for the dashboard that a browser reaches as ``host``: that, and perhaps a port.

    Browsers send the cookies of one port to all others of that name: to dashboards of other hosts, through tunnels.
    """
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdecimal() else COOKIE


@dataclass(slots=True)
class Visitor:
    """One browser."""

    cookie: str
    identity: Identity | None
    """Who signed in; None before that."""
    seen: float
    """When it came last, by CLOCK_MONOTONIC."""
    notices: list[tuple[str, str]] = field(default_factory=list)
    """What its next page tells: kinds (``done`` or ``failed``) and texts."""

    range: str = ""
    """The time that its charts show (see ``web.ranges``); empty before it has chosen one."""

    @property
    def form_token(self) -> str:
        """The token that each of its forms carries: another site cannot know it."""
        return hmac.new(_SECRET, self.cookie.encode(), sha256).hexdigest()

    def may(self, role: AccessRole) -> bool:
        """Return whether it may do what needs a role. Before it has signed in, it may only do what needs none."""
        return role <= (self.identity.role if self.identity is not None else AccessRole.NOBODY)

    def takes(self, form_token: str) -> bool:
        """Return whether a form was made for this browser. Takes equally long for every token."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode("utf-8", "surrogateescape"))


class Visitors:
    """All browsers. Safe to use from several threads."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        """Without ``tokens`` every browser that the gate lets in may do everything."""
        self._tokens = tokens
        self._lock = threading.Lock()
        self._visitors: dict[str, Visitor] = {}

    @property
    def must_sign_in(self) -> bool:
        """Return whether browsers need a token."""
        return self._tokens is not None

    def of(self, cookie: str) -> Visitor:
        """Return the browser with a cookie, or a new one."""
        now = time.monotonic()
        with self._lock:
            visitor = self._visitors.get(cookie)
            if visitor is None or now - visitor.seen > IDLE_SECONDS:
                self._visitors.pop(cookie, None)
                return self._new(None if self.must_sign_in else _EVERYBODY, now)
            visitor.seen = now
            return visitor

    def bearer(self, authorization: str) -> Visitor | None:
        """Return a program that shows its token with each request; None if the token is not known. It has no cookie."""
        if self._tokens is None:
            return Visitor("", _EVERYBODY, 0.0)
        identity = self._tokens.identity(authorization)
        return Visitor("", identity, 0.0) if identity is not None else None

    def stays(self, visitor: Visitor) -> bool:
        """Return whether a browser that follows live parts may go on: it is not signed out, and not idle for too long.

        Following does not count as use if browsers must sign in, so that one that is left alone is signed out.
        """
        now = time.monotonic()
        with self._lock:
            if self._visitors.get(visitor.cookie) is not visitor or now - visitor.seen > IDLE_SECONDS:
                return False
            if not self.must_sign_in:
                visitor.seen = now
            return True

    def sign_in(self, visitor: Visitor, token: str) -> Visitor | None:
        """Return the browser under a new cookie, with the identity of a token; None if the token is not known."""
        identity = None if self._tokens is None else self._tokens.identity(f"Bearer {token}")
        if identity is None:
            return None
        self.sign_out(visitor)
        with self._lock:
            return self._new(identity, time.monotonic())

    def sign_out(self, visitor: Visitor) -> None:
        """Forget a browser."""
        with self._lock:
            self._visitors.pop(visitor.cookie, None)

    def _new(self, identity: Identity | None, now: float) -> Visitor:
        if len(self._visitors) >= _MOST:
            idle = min(self._visitors.values(), key=lambda visitor: (visitor.identity is not None, visitor.seen))
            del self._visitors[idle.cookie]
        visitor = Visitor(secrets.token_urlsafe(32), identity, now)
        self._visitors[visitor.cookie] = visitor
        return visitor
