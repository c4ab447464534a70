"""Overview of the testbed, problems first; then what there is, how much is done, and what has happened last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.quantiles import quantile
from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.history import RECENT_SECONDS
from nnhal_dashboard.monitoring.traffic import SECONDS, ModelTraffic
from nnhal_dashboard.pages.overview.picture import PACES, draw, model_page, refused
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_dashboard.web.sparklines import spark
from nnhal_pages.operating.snapshot import Detail

_FIRST_SECONDS = 0.5
"""The time that the page itself waits for plans that nobody has asked for yet."""
_MOST_MODELS = 12
"""Models in the table; idle ones beyond them are counted."""
_SPARK_SECONDS = 300
_RATES = ("requests", "failures", "copied")
router = APIRouter()


@router.get("/")
def overview(request: Request) -> Response:
    """Show the overview."""
    collector = collector_of(request)
    collector.traffic.learn(collector.look(Detail.CLIENTS), _FIRST_SECONDS)
    return show_page(request, "overview/overview.html", {}, "Overview")


def _figures(moment: Moment) -> Mapping[str, Any]:
    history = moment.collector.history
    _, durations = history.durations(history.end, RECENT_SECONDS, 1)
    processes = [each.process for each in moment.snapshot.processes if each.process is not None]
    return {
        **{kind: history.recent(kind) or 0.0 for kind in _RATES},
        "p50": quantile(durations.sum(axis=0), 0.5),
        "p99": quantile(durations.sum(axis=0), 0.99),
        "memory": sum(process.usage.resident_bytes for process in processes),
    }


def _picture(moment: Moment) -> Mapping[str, Any]:
    snapshot = moment.snapshot
    moment.collector.traffic.learn(snapshot)
    traffic = moment.collector.traffic.at(snapshot)
    slowest = traffic.slowest()
    return {
        "picture": draw(snapshot, traffic) if snapshot.devices or traffic.models else None,
        "slowest": slowest,
        "slowest_page": model_page(slowest.key) if slowest is not None else "",
        "copied": sum(traffic.copied.values()),
        "most_copied": max(traffic.copied, key=lambda end: traffic.copied[end], default=None),
        "refused": refused(traffic),
        "paces": PACES,
        "seconds": SECONDS,
    }


def _models(moment: Moment) -> Mapping[str, Any]:
    framework, traffic = moment.snapshot.framework, moment.collector.traffic.at(moment.snapshot)
    does = {(model.key.model, model.key.version): model for model in traffic.models if not model.key.session}
    served = framework.models if framework is not None else []
    rows = [(model, does.get((model.name, model.version))) for model in served]
    rows.sort(key=_importance)
    return {
        "rows": rows[:_MOST_MODELS],
        "others": len(rows[_MOST_MODELS:]),
        "line": lambda kind, name: spark(moment.collector.history, kind, name, _SPARK_SECONDS),
    }


def _importance(row: tuple[framework_admin_pb2.ServedModelState, ModelTraffic | None]) -> tuple[bool, float]:
    """Return what does not serve comes first, then the busiest."""
    served, does = row
    return served.state == "READY", 0.0 if does is None else -does.requests


FRAGMENTS = (
    Fragment("overview.problems", "overview/problems.html"),
    Fragment("overview.figures", "overview/figures.html", _figures),
    Fragment("overview.picture", "overview/picture.html", _picture, shows=Detail.CLIENTS),
    Fragment("overview.models", "overview/models.html", _models),
    Fragment("overview.events", "overview/events.html"),
)
