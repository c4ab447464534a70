"""The page of clients whose calls were refused: how many by reason, and whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.operating.resources.clients import CLIENTS

router = APIRouter()


@router.get("/clients")
def clients(request: Request) -> Response:
    """Show whose calls were refused."""
    collector_of(request).look()
    return show_page(request, "clients/clients.html", {}, "Clients")


def _refused(moment: Moment) -> Mapping[str, Any]:
    items = sorted(CLIENTS.items(moment.snapshot), key=lambda item: -item[0].count)
    reasons = Counter[str]()
    for (refused,) in items:
        reasons[refused.reason] += refused.count
    return {"refused": [refused for (refused,) in items], "reasons": reasons.most_common()}


FRAGMENTS = (Fragment("clients.refused", "clients/refused.html", _refused),)
