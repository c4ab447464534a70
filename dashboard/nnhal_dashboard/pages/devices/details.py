"""One process: its state, what it does, who uses it, and for a device what it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.history import HistorySample
from nnhal_dashboard.monitoring.open_sessions import sessions_of
from nnhal_dashboard.monitoring.snapshot import ObservedProcess
from nnhal_dashboard.monitoring.standing import hang_words, standing_of, state_of
from nnhal_dashboard.pages.devices.commands import commands_for, supervision_of
from nnhal_dashboard.pages.devices.performance import performance_rows
from nnhal_pages.charts.lines import line_chart
from nnhal_pages.charts.measures import BYTES_PER_SECOND, COUNT, PER_SECOND, SHARE, Measure
from nnhal_pages.charts.series import ChartSeries, TimeWindow

_MINUTES = 15
_REDRAWN_SECONDS = 5
"""Charts move in steps of so much, so that they are not sent anew each second."""
_Series = Callable[[HistorySample], Mapping[str, float] | Mapping[str, int]]
_CHARTS: tuple[tuple[str, _Series, Measure, float], ...] = (
    ("Busy", lambda sample: sample.busy, SHARE, 1.0),
    ("Executions", lambda sample: sample.executions, PER_SECOND, 0.0),
    ("Waiting", lambda sample: sample.waiting, COUNT, 1.0),
    ("Staged", lambda sample: sample.staged_bytes, BYTES_PER_SECOND, 0.0),
)
"""Titles, values by device, their units, and how high the axis is at least."""


def known(moment: Moment) -> ObservedProcess:
    """Return the process that a page is about. Raises LookupError."""
    name = moment.parameters["process"]
    process = moment.snapshot.find(name)
    if process is None:
        raise LookupError(f"no process {name!r}: it has been removed")
    return process


def _head(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {
        "process": process,
        "state": state_of(process, moment.snapshot),
        "standing": standing_of(moment.snapshot, process.name),
        "commands": commands_for(process, moment.snapshot),
        "supervision": supervision_of(process),
        "hangs": hang_words(process.name, moment.snapshot) if process.kind == "device" else (),
    }


def _figures(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    samples = moment.collector.history.samples(5)
    sample = samples[-1] if samples and process.answers else HistorySample(0.0)
    return {"process": process, "device": process.device, "sample": sample, "name": process.name}


def _charts(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    samples = moment.collector.history.samples(60 * _MINUTES)
    end = samples[-1].at if samples else 0.0
    window = TimeWindow(end // _REDRAWN_SECONDS * _REDRAWN_SECONDS, 60.0 * _MINUTES)
    pictures = []
    for title, values, measure, least in _CHARTS:
        points = [(sample.at, values(sample).get(process.name)) for sample in samples]
        drawing = line_chart(title, [ChartSeries(title, points)], measure, window, 420, 150, least)
        pictures.append((title, Markup(drawing.embedded())))
    return {"pictures": pictures}


def _queue(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    said = process.last_said
    return {"process": process, "executions": said.executions if said is not None else []}


def _sessions(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {"process": process, "sessions": list(sessions_of(process, moment.snapshot))}


def _models(moment: Moment) -> Mapping[str, Any]:
    name = known(moment).name
    framework = moment.snapshot.framework
    return {
        "host": moment.snapshot.host,
        "served": [each for each in framework.models if name in each.devices] if framework is not None else [],
        "of_sessions": [each for each in framework.session_models if name in each.devices] if framework else [],
    }


def _abilities(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    identity = process.identity
    return {
        "process": process,
        "identity": identity,
        "description": process.description,
        "performance": performance_rows(identity.capabilities) if identity is not None else [],
        "limits": process.limits,
    }


def _facts(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {"process": process, "said": process.process, "supervised": process.supervised}


FRAGMENTS = (
    Fragment("process.head", "devices/head.html", _head),
    Fragment("device.figures", "devices/figures.html", _figures),
    Fragment("device.charts", "devices/charts.html", _charts),
    Fragment("process.queue", "devices/queue.html", _queue),
    Fragment("process.sessions", "devices/sessions.html", _sessions),
    Fragment("device.models", "devices/models.html", _models),
    Fragment("device.abilities", "devices/abilities.html", _abilities),
    Fragment("process.facts", "devices/facts.html", _facts),
)
