"""The page of charts: each is a part that follows the time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import RedirectResponse, Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.metrics import downloads
from nnhal_dashboard.pages.metrics.charts import DRAWINGS, chart
from nnhal_dashboard.web.ranges import range_of
from nnhal_dashboard.web.request_state import collector_of, show_page

_MINUTES = {"1": "5m", "5": "5m", "15": "15m"}
"""The ranges of addresses that were kept before there were these: by ``minutes``."""
router = APIRouter()
router.include_router(downloads.router)


@router.get("/metrics")
def metrics(request: Request, minutes: str = "") -> Response:
    """Show the charts of a range."""
    if minutes:
        if minutes not in _MINUTES:
            raise HTTPException(400, f"minutes is {minutes[:20]!r}, expected one of {', '.join(_MINUTES)}")
        return RedirectResponse(f"/metrics?range={_MINUTES[minutes]}", 303)
    values = {
        "range": range_of(request),
        "charts": [*DRAWINGS],
        "metrics_address": downloads.metrics_address(collector_of(request).look()),
        "downloads": {name: description for name, (_, description) in downloads.DOWNLOADS.items()},
    }
    return show_page(request, "metrics/metrics.html", values, "Metrics")


def _chart(name: str, moment: Moment) -> Mapping[str, Any]:
    return {"chart": chart(name, moment)}


FRAGMENTS = tuple(Fragment(f"metrics.{name}", "metrics/chart.html", partial(_chart, name)) for name in DRAWINGS)
