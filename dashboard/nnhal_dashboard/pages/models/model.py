"""One model: its state, its signature, its configuration, its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.errors import NnhalError
from nnhal.quantiles import quantile
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.pages.models.model_words import config_words, indented, statistics_words
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_dashboard.world.snapshot import Snapshot
from nnhal_dashboard.world.standing import wait_words

router = APIRouter()


@router.get("/models/{name}")
def model(request: Request, name: str) -> Response:
    """Show a model: the newest version that is ready."""
    return _page(request, name, "")


@router.get("/models/{name}/versions/{version}")
def model_version(request: Request, name: str, version: str) -> Response:
    """Show a version of a model."""
    return _page(request, name, version)


def _page(request: Request, name: str, version: str) -> Response:
    collector = collector_of(request)
    states = versions_of(collector.look(), name, version)
    described, problem = None, ""
    try:
        described = collector.contacts.framework().served_model(name, version)
    except NnhalError as error:
        problem = str(error)
    values: dict[str, Any] = {
        "name": name,
        "version": version,
        "states": states,
        "described": described,
        "problem": problem,
    }
    if described is not None:
        values |= {
            "config": config_words(described.config_json),
            "config_json": indented(described.config_json),
            "statistics": statistics_words(described.statistics_json),
            "statistics_json": indented(described.statistics_json),
        }
    title = f"{name} {version}".rstrip()
    return show_page(request, "models/model.html", values, title)


def versions_of(snapshot: Snapshot, name: str, version: str = "") -> list[wire.ServedModelState]:
    """Return what is known of a model's versions, or of one. Raises LookupError if nothing is."""
    framework = snapshot.framework
    found = [state for state in (framework.models if framework else ()) if state.name == name]
    if version:
        found = [state for state in found if state.version == version]
    if not found:
        raise LookupError(f"the framework knows no model {name!r}{f' of version {version!r}' if version else ''}")
    return found


def _state(moment: Moment) -> Mapping[str, Any]:
    states = versions_of(moment.snapshot, moment.parameters["model"], moment.parameters.get("version", ""))
    return {
        "rows": [
            (
                state,
                quantile(state.counts.durations, 0.5),
                quantile(state.counts.durations, 0.99),
                wait_words(state, moment.snapshot),
            )
            for state in states
        ]
    }


def _standing(moment: Moment) -> Mapping[str, Any]:
    states = versions_of(moment.snapshot, moment.parameters["model"], moment.parameters.get("version", ""))
    return {"model": max(states, key=lambda each: (each.state == "READY", len(each.version), each.version))}


FRAGMENTS = (
    Fragment("models.state", "models/state.html", _state),
    Fragment("models.standing", "models/standing.html", _standing),
)
