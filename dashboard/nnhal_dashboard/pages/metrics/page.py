"""The page of charts: each is a part that follows the time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.pages.metrics import downloads
from nnhal_dashboard.pages.metrics.charts import CHARTS, ShownChart, durations_chart
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.charts.series import TimeWindow

WINDOWS = {"1": 60, "5": 300, "15": 900}
"""The times that can be shown, in seconds, by their minutes."""
_REDRAWS = 60
"""A chart is drawn anew so often while its window passes, at most once a second."""
_drawn: WeakKeyDictionary[History, dict[tuple[str, int], tuple[float, ShownChart]]] = WeakKeyDictionary()
"""The charts of each history as they were drawn last, by their names and seconds, with the end of their windows."""
router = APIRouter()
router.include_router(downloads.router)


@router.get("/metrics")
def metrics(request: Request, minutes: str = "5") -> Response:
    """Show the last minutes."""
    if minutes not in WINDOWS:
        raise HTTPException(400, f"minutes is {minutes[:20]!r}, expected one of {', '.join(WINDOWS)}")
    values = {
        "minutes": minutes,
        "windows": list(WINDOWS),
        "charts": [*CHARTS],
        "metrics_address": downloads.metrics_address(collector_of(request).look()),
        "downloads": {name: description for name, (_, description) in downloads.DOWNLOADS.items()},
    }
    return show_page(request, "metrics/metrics.html", values, "Metrics")


def _chart(name: str, moment: Moment) -> Mapping[str, Any]:
    seconds = WINDOWS[moment.parameters.get("minutes", "5")]
    samples = moment.collector.history.samples(seconds)
    if len(samples) < 2:
        return {"chart": None}
    # The window moves in steps, so that a chart of a long time is not drawn and sent anew each second.
    step = max(1, seconds // _REDRAWS)
    window = TimeWindow(samples[-1].at // step * step, seconds)
    drawn = _drawn.setdefault(moment.collector.history, {})
    known = drawn.get((name, seconds))
    if known is None or known[0] != window.end:
        shown = [sample for sample in samples if sample.at <= window.end]
        chart = durations_chart(shown, window) if name == "durations" else CHARTS[name].draw(shown, window)
        known = drawn[name, seconds] = window.end, chart
    return {"chart": known[1]}


PAGE = Page(
    router,
    tuple(Fragment(f"metrics.{name}", "metrics/chart.html", partial(_chart, name)) for name in ("durations", *CHARTS)),
)
