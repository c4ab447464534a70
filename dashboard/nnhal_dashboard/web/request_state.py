"""State of the application for a request: its visitor, what is known of the testbed, and what renders pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from nnhal_dashboard.access.visitors import Visitor
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.web.rendering import Renderer
from nnhal_dashboard.web.selection import QuerySelection


def visitor_of(request: Request) -> Visitor:
    """Return the browser that sent a request."""
    visitor: Visitor = request.state.visitor
    return visitor


def collector_of(request: Request) -> Collector:
    """Return what knows the processes of the testbed."""
    collector: Collector = request.app.state.collector
    return collector


def show_page(request: Request, template: str, values: Mapping[str, Any], title: str, status: int = 200) -> Response:
    """Answer with a page. ``title`` is its heading, plain text."""
    renderer: Renderer = request.app.state.renderer
    return renderer.page(request, template, values, title, status)


def selection_of(request: Request, read: Callable[[Mapping[str, str]], QuerySelection]) -> QuerySelection:
    """Return what the query of a list selects, as ``read`` reads it. Raises HTTPException if it makes no sense."""
    try:
        return read(request.query_params)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
