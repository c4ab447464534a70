"""The page of charts, each a part that follows the time, and files for Prometheus and Grafana to download."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import RedirectResponse, Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.metrics.charts import DRAWINGS, chart
from nnhal_dashboard.web.ranges import range_of
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.operating.snapshot import Snapshot

_MINUTES = {"1": "5m", "5": "5m", "15": "15m"}
"""The ranges of addresses that were kept before there were these: by ``minutes``."""
_SCRAPES = "prometheus.yml"
_TARGET = "127.0.0.1:8002"
"""The framework's address in the file of scrapes, unless another is known."""
DOWNLOADS = {
    _SCRAPES: ("application/yaml", "what Prometheus scrapes: the metrics of this framework"),
    "nnhal_rules.yml": ("application/yaml", "what Prometheus records, and when it tells somebody"),
    "nnhal_grafana.json": ("application/json", "a dashboard to import into Grafana"),
}
"""The files: the type of each, and what it is."""
router = APIRouter()


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
        "metrics_address": metrics_address(collector_of(request).look()),
        "downloads": {name: description for name, (_, description) in DOWNLOADS.items()},
    }
    return show_page(request, "metrics/metrics.html", values, "Metrics")


@router.get("/metrics/files/{name}")
def download(request: Request, name: str) -> Response:
    """Answer with a file."""
    if name not in DOWNLOADS:
        raise LookupError(f"no file {name!r}, expected one of {', '.join(DOWNLOADS)}")
    text = files("nnhal_dashboard.pages.metrics").joinpath("files", name).read_text()
    if name == _SCRAPES:
        text = text.replace(_TARGET, metrics_address(collector_of(request).look()) or _TARGET)
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text, media_type=DOWNLOADS[name][0], headers=headers)


def metrics_address(snapshot: Snapshot) -> str:
    """Return where the framework serves its metrics; empty if it serves none, or is not known."""
    return snapshot.framework.addresses.get("metrics", "") if snapshot.framework is not None else ""


def _chart(name: str, moment: Moment) -> Mapping[str, Any]:
    return {"chart": chart(name, moment)}


FRAGMENTS = tuple(Fragment(f"metrics.{name}", "metrics/chart.html", partial(_chart, name)) for name in DRAWINGS)
