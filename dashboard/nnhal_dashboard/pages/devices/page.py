"""The list of processes, and the page of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.states import state_of
from nnhal_dashboard.pages.devices import actions, details
from nnhal_dashboard.pages.devices.details import RATE_SECONDS
from nnhal_dashboard.web.ranges import range_of
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_dashboard.web.sparklines import spark
from nnhal_pages.operating.snapshot import Detail, ObservedProcess

_SECONDS = 300
"""The time that a small picture shows."""


def _devices(moment: Moment) -> Mapping[str, Any]:
    history, snapshot = moment.collector.history, moment.snapshot
    return {
        "recent": lambda kind, name: history.recent(f"device.{kind}", name, RATE_SECONDS),
        "state_of": state_of,
        "picture": lambda name: spark(history, "device.busy", name, _SECONDS),
        "has_temperature": any(each.device and each.device.HasField("temperature") for each in snapshot.devices),
    }


router = APIRouter()
router.include_router(actions.router)


@router.get("/devices")
def devices(request: Request) -> Response:
    """Show all devices, and what else runs."""
    collector_of(request).look(Detail.SESSIONS)
    return show_page(request, "devices/devices.html", {}, "Devices")


@router.get("/devices/{name}")
def device(request: Request, name: str) -> Response:
    """Show a device."""
    found = _known(request, name)
    if found.kind != "device":
        return _elsewhere(found)
    answer = collector_of(request).faults.ask(found)
    values = {
        "process": found,
        "range": range_of(request),
        "takes_faults": answer is not None and not answer.refusal,
        "fault_kinds": actions.FAULT_KINDS,
    }
    return show_page(request, "devices/device.html", values, found.name)


@router.get("/processes/{name}")
def process(request: Request, name: str) -> Response:
    """Show the framework, the dashboard, or another process that is no device."""
    found = _known(request, name)
    if found.kind == "device":
        return _elsewhere(found)
    return show_page(request, "devices/process.html", {"process": found}, found.name)


def _known(request: Request, name: str) -> ObservedProcess:
    return collector_of(request).look(Detail.SESSIONS).known(name)


def _elsewhere(process: ObservedProcess) -> Response:
    return RedirectResponse(process.page, 303)


FRAGMENTS = (
    Fragment("devices.list", "devices/list.html", _devices, Detail.PROCESSES),
    Fragment("devices.others", "devices/others.html", shows=Detail.SESSIONS),
    *details.FRAGMENTS,
)
