"""One model: its state, its signature, its configuration, its statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from nnhal.errors import NnhalError
from nnhal.quantiles import quantile
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.states import hang_words, wait_words
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.operating.snapshot import Snapshot

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
            "config": _config_words(described.config_json),
            "config_json": _indented(described.config_json),
            "statistics": _statistics_words(described.statistics_json),
            "statistics_json": _indented(described.statistics_json),
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
                _wait_words(state, moment.snapshot),
                state.modelled_ns or moment.collector.plans.modelled_ns(state),
            )
            for state in states
        ]
    }


def _wait_words(state: wire.ServedModelState, snapshot: Snapshot) -> list[str]:
    """Say what its requests wait for, and what became of the devices that it hung on."""
    hangs = [words for device in state.devices for words in hang_words(device, snapshot)]
    waits = wait_words(state, snapshot)
    return [f"the {waits}", *hangs] if waits else hangs


def _by_plan(moment: Moment) -> Mapping[str, Any]:
    states = versions_of(moment.snapshot, moment.parameters["model"], moment.parameters.get("version", ""))
    model = max(states, key=lambda each: (each.state == "READY", len(each.version), each.version))
    return {"model": model, "modelled_ns": model.modelled_ns or moment.collector.plans.modelled_ns(model)}


FRAGMENTS = (
    Fragment("models.state", "models/state.html", _state),
    Fragment("models.by_plan", "models/by_plan.html", _by_plan),
)


def _config_words(config_json: str) -> list[tuple[str, str]]:
    """Return the settings of a configuration, as paths and values; those that say nothing are left out."""
    return list(_settings("", json.loads(config_json)))


def _statistics_words(statistics_json: str) -> list[tuple[str, int, float]]:
    """Return what was counted since the model was loaded: its name, how often, and the mean time in nanoseconds."""
    (statistics,) = json.loads(statistics_json)["model_stats"]
    counted = statistics["inference_stats"].items()
    rows = [(name.replace("_", " "), int(each["count"]), int(each["ns"])) for name, each in counted]
    return [(name, count, total / count) for name, count, total in rows if count]


def _indented(text: str) -> str:
    """Return JSON for readers."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def _settings(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _settings(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _settings(f"{path}[{number}]", each)
    elif isinstance(value, list):
        if value:
            yield path, ", ".join(map(_word, value))
    elif value not in ("", None, False, 0) and value not in ("FORMAT_NONE", "KIND_AUTO"):
        yield path, _word(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
