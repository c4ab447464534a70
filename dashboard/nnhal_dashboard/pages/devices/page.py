"""The list of processes, and the page of each."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from nnhal_dashboard.pages.devices import actions, details, listing
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_dashboard.world.snapshot import ObservedProcess

router = APIRouter()
router.include_router(actions.router)


@router.get("/devices")
def devices(request: Request) -> Response:
    """Show all devices, and what else runs."""
    snapshot = collector_of(request).look()
    values = {"supervisor": snapshot.supervisor}
    return show_page(request, "devices/devices.html", values, "Devices")


@router.get("/devices/{name}")
def device(request: Request, name: str) -> Response:
    """Show a device."""
    found = _known(request, name)
    return _shown(request, found, "devices/device.html") if found.kind == "device" else _elsewhere(found)


@router.get("/processes/{name}")
def process(request: Request, name: str) -> Response:
    """Show the framework, the dashboard, or another process that is no device."""
    found = _known(request, name)
    return _shown(request, found, "devices/process.html") if found.kind != "device" else _elsewhere(found)


def _known(request: Request, name: str) -> ObservedProcess:
    found: ObservedProcess | None = collector_of(request).look().find(name)
    if found is None:
        raise LookupError(f"no process {name!r}: it may have been removed; the page Devices lists those that there are")
    return found


def _elsewhere(process: ObservedProcess) -> Response:
    return RedirectResponse(process.page, 303)


def _shown(request: Request, process: ObservedProcess, template: str) -> Response:
    return show_page(request, template, {"process": process}, process.name)


PAGE = Page(router, (*listing.FRAGMENTS, *details.FRAGMENTS))
