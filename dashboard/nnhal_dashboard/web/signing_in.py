"""Signing in with a token, and out."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from starlette.datastructures import URL
from starlette.responses import RedirectResponse, Response

from nnhal_dashboard.access.visitors import Visitors
from nnhal_dashboard.web.forms import AnyForm
from nnhal_dashboard.web.request_state import show_page

router = APIRouter()


@router.get("/login")
def sign_in_page(request: Request, to: str = "/") -> Response:
    """Show the form that asks for a token."""
    return _page(request, to, "", 200)


@router.post("/login")
def sign_in(
    request: Request, visitor: AnyForm, token: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/"
) -> Response:
    """Sign a browser in; it gets a new cookie."""
    visitors: Visitors = request.app.state.visitors
    known = visitors.sign_in(visitor, token.strip())
    if known is None:
        return _page(request, to, "This token is not known.", 403)
    request.state.visitor = known
    return RedirectResponse(_own(to), 303)


@router.post("/logout")
def sign_out(request: Request, visitor: AnyForm) -> Response:
    """Sign a browser out."""
    visitors: Visitors = request.app.state.visitors
    visitors.sign_out(visitor)
    request.state.visitor = visitors.of("")
    return RedirectResponse("/login" if visitors.must_sign_in else "/", 303)


def wanted(url: URL) -> str:
    """Return the query that leads back to a page once somebody has signed in."""
    return urlencode({"to": url.path + (f"?{url.query}" if url.query else "")})


def _page(request: Request, to: str, problem: str, status: int) -> Response:
    values = {"to": _own(to), "problem": problem}
    return show_page(request, "login.html", values, "Sign in", status)


def _own(to: str) -> str:
    """Return a path of this dashboard: another site is no place to go to."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
