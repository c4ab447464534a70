"""The list of all models, with the form that uploads one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.quantiles import quantile
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.web.request_state import collector_of, show_page

router = APIRouter()


@router.get("/models")
def models(request: Request) -> Response:
    """Show the models of the repository, and those of sessions."""
    collector_of(request).look()
    values = {"upload_bytes": request.app.state.settings.upload_bytes}
    return show_page(request, "models/index.html", values, "Models")


def _served(moment: Moment) -> Mapping[str, Any]:
    framework = moment.snapshot.framework
    rows = [(model, quantile(model.counts.durations, 0.5)) for model in framework.models] if framework else []
    return {"rows": rows, "framework": framework, "problem": _problem(moment)}


def _of_sessions(moment: Moment) -> Mapping[str, Any]:
    framework = moment.snapshot.framework
    return {"models": framework.session_models if framework is not None else [], "host": moment.snapshot.host}


def _problem(moment: Moment) -> str:
    host = moment.snapshot.host
    if host is None:
        return "No framework is known: start one with 'nnhal up'."
    return "" if host.answers else f"The framework does not answer, this was its last word: {host.silence}"


FRAGMENTS = (
    Fragment("models.served", "models/served.html", _served),
    Fragment("models.of_sessions", "models/of_sessions.html", _of_sessions),
)
