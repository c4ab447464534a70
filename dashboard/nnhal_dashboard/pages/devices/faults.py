"""The faults of a device that was started with ``--allow-faults``: seen, set and cleared."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from nnhal.given_files import parse_toml
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of

router = APIRouter()
KINDS = ("error", "delay", "hang", "death", "memory", "values", "slow_clock", "answer", "fence", "withdrawn")
"""The kinds that the form offers; the others need keys that differ by device."""


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
    """Have a device misbehave."""
    collector = collector_of(request)

    def act() -> str:
        fault: dict[str, Any] = {"what": what.strip()}
        if operation.strip():
            fault["operation"] = operation.strip()
        if times.strip():
            fault["times"] = int(times)
        try:
            fault |= parse_toml(more, "keys of a fault")
        except ValueError as error:
            raise ValueError(f"further keys: {error}; expected lines of TOML, such as ms = 20") from error
        return f"{', '.join(collector.contacts.set_faults(process, fault))}."

    return done(request, visitor, act, f"{process} has the fault", f"/devices/{process}#faults")


@router.post("/faults/clear")
def clear_faults(
    request: Request, visitor: OperatorForm, process: Annotated[str, Form()], name: Annotated[str, Form()] = ""
) -> Response:
    """Remove a fault of a device, or all."""
    contacts = collector_of(request).contacts

    def act() -> str:
        count = contacts.clear_faults(process, (name,) if name else ())
        return f"{count} fault{'' if count == 1 else 's'} cleared."

    return done(request, visitor, act, f"{process}:", f"/devices/{process}#faults")
