"""The application: every request passes the gate, belongs to a visitor, and is answered by a page."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as PlainHttpError
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from nnhal.errors import NnhalError
from nnhal_dashboard import api
from nnhal_dashboard.access.gate import BoundedBodies, Gate
from nnhal_dashboard.access.visitors import Visitors, cookie_of
from nnhal_dashboard.live.fragments import Fragments
from nnhal_dashboard.live.streams import MOST_KEYS, LiveResponse, Streams
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.pages.clients import page as clients
from nnhal_dashboard.pages.devices import page as devices
from nnhal_dashboard.pages.events import page as events
from nnhal_dashboard.pages.logs import page as logs
from nnhal_dashboard.pages.memory import page as memory
from nnhal_dashboard.pages.metrics import page as metrics
from nnhal_dashboard.pages.models import index as models
from nnhal_dashboard.pages.models import loading, model, plan
from nnhal_dashboard.pages.overview import page as overview
from nnhal_dashboard.pages.runs import listing as runs
from nnhal_dashboard.pages.runs import recordings, run
from nnhal_dashboard.pages.sessions import page as sessions
from nnhal_dashboard.pages.trying import page as trying
from nnhal_dashboard.settings import DashboardSettings
from nnhal_dashboard.web import signing_in, static
from nnhal_dashboard.web.ranges import ElsewhereError
from nnhal_dashboard.web.rendering import Renderer, personal
from nnhal_dashboard.web.request_state import show_page
from nnhal_hosting.access import AccessRole, AllowedHosts, LocalUsers
from nnhal_pages.operating.snapshot import Snapshot

PAGES = (
    overview,
    devices,
    models,
    loading,
    model,
    plan,
    runs,
    run,
    recordings,
    memory,
    sessions,
    clients,
    metrics,
    events,
    trying,
    logs,
)
"""Modules of pages: each has a ``router`` with their addresses, and ``FRAGMENTS``, their parts that are live."""
_OPEN = ("/login", "/static/", "/favicon.ico")
"""Paths that need nobody to have signed in."""
_WITHOUT_COOKIE = ("/static/", "/favicon.ico")
"""Paths whose answers are kept by caches, which must not hand one browser's cookie to others."""
_FROM_ELSEWHERE = """<!doctype html><html lang="en"><head><title>nnhal</title>
<meta http-equiv="refresh" content="0"></head><body><p>Go on to the dashboard by reloading this page.</p></body></html>
"""
"""For a browser that follows a link of another site: it leaves its cookie out. It
then comes again from here, with the cookie if it has one."""


def create_app(
    settings: DashboardSettings,
    collector: Collector,
    visitors: Visitors,
    hosts: AllowedHosts,
    users: LocalUsers | None = None,
    is_secure: bool = False,
) -> tuple[ASGIApp, Streams]:
    """Build the application, and the streams that are to be closed at its end.

    ``users`` are those who need no token; None if that does not depend on the user. ``is_secure``: it is served over
    TLS.
    """
    app = FastAPI(title="nnhal", version="1", docs_url=None, redoc_url=None, openapi_url=f"{api.ROOT}/openapi.json")
    fragments = Fragments()
    renderer = Renderer(collector, fragments)
    streams = Streams(lambda key: api.rendered(key, collector.snapshot) or renderer.fragment(key))

    def show_changes(snapshot: Snapshot) -> None:
        if len(streams):
            keys = streams.keys
            collector.watch(fragments.shown(keys) | api.details_of(keys))  # who has a page open looks at it
            streams.publish(snapshot)

    collector.listen(show_changes)
    state = app.state
    state.settings, state.collector, state.visitors = settings, collector, visitors
    state.renderer, state.streams = renderer, streams
    for page in PAGES:
        fragments.add(*page.FRAGMENTS)
        app.include_router(page.router, include_in_schema=False)
    app.include_router(signing_in.router, include_in_schema=False)
    app.include_router(static.router, include_in_schema=False)
    app.include_router(api.documentation)
    app.include_router(api.router)

    app.add_middleware(BoundedBodies, takes_files=_takes_files)

    @app.middleware("http")
    async def visit(request: Request, serve: Callable[[Request], Awaitable[Response]]) -> Response:
        path, cookie = request.url.path, cookie_of(request.headers.get("host", ""))
        given = request.cookies.get(cookie)
        shown_token = request.headers.get("authorization")
        if given is None and visitors.must_sign_in and request.headers.get("sec-fetch-site") == "cross-site":
            return HTMLResponse(_FROM_ELSEWHERE)
        is_for_programs = path.startswith(api.ROOT) or _wants_json(request)
        visitor = visitors.of(given or "") if shown_token is None else visitors.bearer(shown_token)
        if visitor is None or (not path.startswith(_OPEN) and not visitor.may(AccessRole.VIEW)):
            if visitor is not None and request.method == "GET" and path != "/live" and not is_for_programs:
                return RedirectResponse(f"/login?{signing_in.wanted(request.url)}", 303)
            return _unknown_visitor(is_for_programs, shown_token is not None)
        request.state.visitor = visitor
        if shown_token is not None:
            given = visitor.cookie
        if _wants_json(request) and request.method == "GET":
            request.scope["path"] = _as_json(path)
        began = time.perf_counter()
        response = await serve(request)
        response.headers["server-timing"] = f"page;dur={(time.perf_counter() - began) * 1e3:.1f}"
        visitor = request.state.visitor  # signing in makes another
        if given != visitor.cookie and not path.startswith(_WITHOUT_COOKIE):
            response.set_cookie(cookie, visitor.cookie, httponly=True, samesite="strict", secure=is_secure)
        return response

    @app.get("/live", response_class=LiveResponse, include_in_schema=False)
    async def live(request: Request, f: Annotated[list[str], Query()]) -> Response:
        if len(f) > MOST_KEYS:
            raise HTTPException(400, f"{len(f)} live parts, at most {MOST_KEYS} are allowed")
        visitor = request.state.visitor
        collector.watch(fragments.shown(f))
        return LiveResponse(streams.follow(f, lambda html: personal(html, visitor), lambda: visitors.stays(visitor)))

    @app.exception_handler(PlainHttpError)
    async def refused(request: Request, error: PlainHttpError) -> Response:
        return error_page(request, error.status_code, str(error.detail))

    @app.exception_handler(ElsewhereError)
    async def elsewhere(_: Request, error: ElsewhereError) -> Response:
        return RedirectResponse(error.address, 303)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_page(request, 422, f"{where}: {first['msg']}")

    @app.exception_handler(NnhalError)
    async def failed(request: Request, error: NnhalError) -> Response:
        status, words = api.refusal(error) if request.url.path.startswith(api.ROOT) else (502, str(error))
        return error_page(request, status, words)

    @app.exception_handler(ValueError)
    async def unfit(request: Request, error: ValueError) -> Response:
        if not request.url.path.startswith(api.ROOT):
            raise error
        return error_page(request, 422, str(error))

    @app.exception_handler(LookupError)
    async def missing(request: Request, error: LookupError) -> Response:
        return error_page(request, 404, str(error))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        # The server writes the traceback to the log after this.
        return error_page(request, 500, f"the dashboard failed here ({type(error).__name__}); its log has the reason")

    return Gate(app, hosts, users), streams


def _wants_json(request: Request) -> bool:
    """Return whether a page that has a resource is asked for as JSON."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted and bool(_as_json(request.url.path))


def _as_json(path: str) -> str:
    """Return the address of the API that tells the same as a page; empty if none does."""
    word, _, name = path.removeprefix("/").partition("/")
    if word not in api.OF_PAGES:
        return ""
    return f"{api.ROOT}/{api.OF_PAGES[word]}" + (f"/{name}" if name else "")


def _unknown_visitor(is_for_programs: bool, has_shown_token: bool) -> Response:
    words = "the token is not known" if has_shown_token else "sign in first: this needs a token"
    headers = {"www-authenticate": "Bearer"}
    if is_for_programs:
        return JSONResponse({"error": words}, 401, headers)
    return PlainTextResponse(f"{words}\n", 401, headers)


def _takes_files(path: str) -> bool:
    """Return whether forms sent to a path may have files. Who sends them is looked at before these are read."""
    return path == "/models" or path.startswith("/try/")


def error_page(request: Request, status: int, message: str) -> Response:
    """Answer with an error as a page; as JSON or as plain text if the request was not for a page."""
    if request.url.path.startswith(api.ROOT):
        return JSONResponse({"error": message}, status)
    if not hasattr(request.state, "visitor") or "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(message + "\n", status)
    return show_page(request, "error.html", {"message": message}, HTTPStatus(status).phrase, status)
