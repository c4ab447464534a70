"""What is wrong first; then what there is, how much is done, and what has happened last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.quantiles import quantile, summed
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.events import moment_page
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.request_state import collector_of, show_page

_RECENT_SECONDS = 60
_EVENTS = 12
router = APIRouter()


@router.get("/")
def overview(request: Request) -> Response:
    """Show the overview."""
    collector_of(request).look()
    return show_page(request, "overview/overview.html", {}, "Overview")


def _problems(moment: Moment) -> Mapping[str, Any]:
    return {"problems": moment.snapshot.problems}


def _figures(moment: Moment) -> Mapping[str, Any]:
    samples = [sample for sample in moment.collector.history.samples(_RECENT_SECONDS) if sample.is_known]
    durations = summed(sample.durations for sample in samples)
    processes = [process for process in moment.snapshot.processes if process.process is not None]
    count = max(len(samples), 1)
    return {
        "requests": sum(sample.requests for sample in samples) / count,
        "failures": sum(sample.failures for sample in samples) / count,
        "copied": sum(sample.copied_bytes for sample in samples) / count,
        "p50": quantile(durations, 0.5),
        "p99": quantile(durations, 0.99),
        "memory": sum(each.process.usage.resident_bytes for each in processes if each.process is not None),
        "framework": moment.snapshot.framework,
    }


def _devices(moment: Moment) -> Mapping[str, Any]:
    last = moment.collector.history.samples(3)
    return {"devices": moment.snapshot.devices, "sample": last[-1] if last else None}


def _models(moment: Moment) -> Mapping[str, Any]:
    framework = moment.snapshot.framework
    return {"models": framework.models if framework is not None else [], "framework": framework}


def _events(moment: Moment) -> Mapping[str, Any]:
    return {"events": moment.snapshot.events[: -_EVENTS - 1 : -1], "moment_page": moment_page}


PAGE = Page(
    router,
    (
        Fragment("overview.problems", "overview/problems.html", _problems),
        Fragment("overview.figures", "overview/figures.html", _figures),
        Fragment("overview.devices", "overview/devices.html", _devices),
        Fragment("overview.models", "overview/models.html", _models),
        Fragment("overview.events", "overview/events.html", _events),
    ),
)
