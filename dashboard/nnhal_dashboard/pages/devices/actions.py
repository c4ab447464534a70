"""Actions of the forms of these pages."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from nnhal.given_files import parse_toml
from nnhal_dashboard.pages.devices.commands import BUTTONS
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of
from nnhal_pages.operating.resources import devices, faults, runs
from nnhal_pages.operating.table import Done, OperatedSystem

router = APIRouter()
FAULT_KINDS = ("error", "delay", "hang", "death", "memory", "values", "slow_clock", "answer", "fence", "withdrawn")
"""The faults that the form offers; the others need keys that differ by device."""


@router.post("/processes/{command}")
def act(request: Request, visitor: OperatorForm, command: str, process: Annotated[str, Form()]) -> Response:
    """Start, stop, restart, drain, kill or remove a process, or have it exit."""
    button = BUTTONS.get(command)
    if button is None:
        raise LookupError(f"nothing is called {command!r}; a process takes {', '.join(BUTTONS)}")
    found = collector_of(request).snapshot.known(process)
    to = "/devices" if command == "remove" else found.page
    return done(request, visitor, partial(button.act, name=process, **button.given), to)


@router.post("/devices/start")
def start_device(
    request: Request,
    visitor: OperatorForm,
    driver: Annotated[str, Form()],
    name: Annotated[str, Form()] = "",
    workers: Annotated[int, Form(ge=1, le=256)] = 1,
    threads: Annotated[int, Form(ge=1, le=256)] = 1,
    options: Annotated[str, Form()] = "",
) -> Response:
    """Start one more device; ``options`` has a line for each."""
    lines = [line for line in options.split("\n") if line.strip()]
    start = partial(devices.start_one_more, driver=driver, name=name, workers=workers, threads=threads, options=lines)
    return done(request, visitor, start, "/devices")


@router.post("/executions/cancel")
def cancel(
    request: Request,
    visitor: OperatorForm,
    process: Annotated[str, Form()],
    execution: Annotated[str, Form()],
    room: Annotated[str, Form()] = "",
) -> Response:
    """Cancel an execution of a process; ``room`` is ``runs`` if that was asked for on the page of runs."""
    found = collector_of(request).snapshot.known(process)
    end = partial(runs.cancel, execution=f"{process}/{execution}")
    return done(request, visitor, end, "/runs" if room == "runs" else found.page)


@router.post("/faults/set")
def set_faults(
    request: Request,
    visitor: OperatorForm,
    process: Annotated[str, Form()],
    what: Annotated[str, Form()],
    operation: Annotated[str, Form()] = "",
    times: Annotated[str, Form()] = "",
    more: Annotated[str, Form()] = "",
) -> Response:
    """Have a device misbehave; ``more`` has further keys of the fault, as lines of TOML."""

    def act(at: OperatedSystem) -> Done:
        fault: dict[str, Any] = {"what": what.strip()}
        if operation.strip():
            fault["operation"] = operation.strip()
        if times.strip():
            fault["times"] = int(times)
        try:
            fault |= parse_toml(more, "keys of a fault")
        except ValueError as error:
            raise ValueError(f"further keys: {error}; expected lines of TOML, such as ms = 20") from error
        return faults.set_fault(at, process, fault)

    return done(request, visitor, act, f"/devices/{process}#faults")


@router.post("/faults/clear")
def clear_faults(
    request: Request, visitor: OperatorForm, process: Annotated[str, Form()], name: Annotated[str, Form()] = ""
) -> Response:
    """Remove a fault of a device, or all."""
    clear = partial(faults.clear, name=process, faults=[name] if name else None)
    return done(request, visitor, clear, f"/devices/{process}#faults")
