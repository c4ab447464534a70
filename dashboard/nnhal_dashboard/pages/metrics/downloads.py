"""Files for Prometheus and Grafana, to download."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal_dashboard.web.request_state import collector_of
from nnhal_pages.operating.snapshot import Snapshot

router = APIRouter()
_SCRAPES = "prometheus.yml"
_TARGET = "127.0.0.1:8002"
"""The framework's address in the file of scrapes, unless another is known."""
DOWNLOADS = {
    _SCRAPES: ("application/yaml", "what Prometheus scrapes: the metrics of this framework"),
    "nnhal_rules.yml": ("application/yaml", "what Prometheus records, and when it tells somebody"),
    "nnhal_grafana.json": ("application/json", "a dashboard to import into Grafana"),
}
"""The files: the type of each, and what it is."""


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
