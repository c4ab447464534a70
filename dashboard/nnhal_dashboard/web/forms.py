"""Actions of forms, done once the token and the visitor's role are checked, and reported on the next page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Form, HTTPException, Request
from starlette.responses import RedirectResponse, Response

from nnhal.errors import NnhalError
from nnhal_dashboard.access.gate import bounded
from nnhal_dashboard.access.visitors import Visitor
from nnhal_dashboard.web.request_state import collector_of, visitor_of
from nnhal_hosting.access import AccessRole
from nnhal_pages.operating.table import Done, OperatedSystem
from nnhal_pages.units import size

_FORM_BYTES = 64 * 1024
"""What a form has besides its files, at most."""


def require_role(visitor: Visitor, role: AccessRole) -> None:
    """Raise HTTPException (403) if a visitor may not do what needs a role."""
    if not visitor.may(role):
        identity = visitor.identity
        who = f"token '{identity.name}' has role {identity.role.name.lower()}" if identity else "nobody has signed in"
        raise HTTPException(403, f"{who}, expected {role.name.lower()}")


def require_form_token(visitor: Visitor, form_token: str) -> None:
    """Raise HTTPException (403) if a form was not made for a visitor."""
    if not visitor.takes(form_token):
        raise HTTPException(403, "the form is out of date: load its page again, and send it from there")


def _checked(role: AccessRole) -> Callable[[Request, str], Visitor]:
    def check(request: Request, form_token: Annotated[str, Form()] = "") -> Visitor:
        visitor = visitor_of(request)
        require_form_token(visitor, form_token)
        require_role(visitor, role)
        return visitor

    return check


OperatorForm = Annotated[Visitor, Depends(_checked(AccessRole.ADMIN))]
"""The visitor of a form that changes something: its token is checked, and that the visitor is an admin."""
AnyForm = Annotated[Visitor, Depends(_checked(AccessRole.NOBODY))]
"""The visitor of a form that changes nothing but what this browser sees."""


def with_files(request: Request, limit: int) -> Request:
    """Return a request that may have so many bytes of files. It raises HTTPException (413) once more have come."""
    words = f"the files have more than {size(limit)}, the most that may be uploaded"
    return Request(request.scope, bounded(request.receive, limit + _FORM_BYTES, words))


def who_of(request: Request, visitor: Visitor) -> str:
    """Say who asks for a change, and from where."""
    name = visitor.identity.name if visitor.identity is not None else ""
    host = f"from {request.client.host}" if request.client is not None else ""
    return " ".join(filter(None, (name and f"token {name}", host, "by the dashboard")))


def done(request: Request, visitor: Visitor, act: Callable[[OperatedSystem], Done], to: str) -> Response:
    """Do what a form asks for, have the next page tell how it went, and go there."""
    collector = collector_of(request)
    try:
        told = act(collector).noted(collector, who_of(request, visitor)).sentence
    except (NnhalError, LookupError, ValueError, OSError) as error:
        visitor.notices.append(("failed", str(error)))
    else:
        visitor.notices.append(("done", told if told.endswith((".", "}")) else f"{told}."))
    collector.refresh()
    return RedirectResponse(to, 303)
