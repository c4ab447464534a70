"""One process: its state, what it does, who uses it, and for a device what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.open_sessions import sessions_of
from nnhal_dashboard.monitoring.states import hang_words, state_of
from nnhal_dashboard.pages.devices.commands import buttons_for, supervision_of
from nnhal_dashboard.pages.metrics.charts import OF_DEVICE, chart
from nnhal_pages.operating.performance import performance_rows
from nnhal_pages.operating.snapshot import Detail, ObservedProcess

RATE_SECONDS = 5
"""The time that the rates of a device are of."""


def known(moment: Moment) -> ObservedProcess:
    """Return the process that a page is about. Raises LookupError."""
    return moment.snapshot.known(moment.parameters["process"])


def _head(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {
        "process": process,
        "state": state_of(process, moment.snapshot),
        "commands": buttons_for(process, moment.snapshot),
        "supervision": supervision_of(process),
        "hangs": hang_words(process.name, moment.snapshot) if process.kind == "device" else (),
    }


def _figures(moment: Moment) -> Mapping[str, Any]:
    process, recent = known(moment), moment.collector.history.recent
    rates = {kind: recent(f"device.{kind}", process.name, RATE_SECONDS) for kind in ("busy", "executions", "staged")}
    return {"process": process, **(rates if process.answers else dict.fromkeys(rates))}


def _charts(moment: Moment) -> Mapping[str, Any]:
    name = known(moment).name
    return {"charts": [chart(kind, moment, name, 420, 160) for kind in OF_DEVICE]}


def _sessions(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {"process": process, "sessions": list(sessions_of(process, moment.snapshot))}


def _models(moment: Moment) -> Mapping[str, Any]:
    name = known(moment).name
    framework = moment.snapshot.framework
    return {
        "served": [each for each in framework.models if name in each.devices] if framework is not None else [],
        "of_sessions": [each for each in framework.session_models if name in each.devices] if framework else [],
    }


def _abilities(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    identity = process.identity
    return {"process": process, "performance": performance_rows(identity.capabilities) if identity is not None else []}


def _process(moment: Moment) -> Mapping[str, Any]:
    return {"process": known(moment)}


def _faults(moment: Moment) -> Mapping[str, Any]:
    process = known(moment)
    return {"process": process, "faults": moment.collector.faults.of(process)}


FRAGMENTS = (
    Fragment("process.head", "devices/head.html", _head, Detail.SESSIONS),
    Fragment("device.figures", "devices/figures.html", _figures),
    Fragment("device.charts", "devices/charts.html", _charts),
    Fragment("process.queue", "devices/queue.html", _process, Detail.SESSIONS),
    Fragment("process.sessions", "devices/sessions.html", _sessions, Detail.SESSIONS),
    Fragment("device.models", "devices/models.html", _models),
    Fragment("device.abilities", "devices/abilities.html", _abilities),
    Fragment("device.faults", "devices/faults.html", _faults),
    Fragment("process.facts", "devices/facts.html", _process, Detail.SESSIONS),
)
