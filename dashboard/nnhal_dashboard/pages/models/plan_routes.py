"""The addresses of plans: of models of the repository, and of those that sessions have loaded for themselves."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, HTTPException, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from nnhal.v1 import framework_pb2
from nnhal_dashboard.pages.models.pin_choice import PinChoice
from nnhal_dashboard.pages.models.plan import PlanPlace, download_plan, go_to_trial, show_plan
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of
from nnhal_dashboard.world.plans import PlanSubject

router = APIRouter()
_OF_SESSION = "/sessions/{process}/{session}/models/{name:any_name}/plan"


class _AnyName(Convertor[str]):
    """Names that clients give to their own models: with slashes, and with ends of lines."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any_name", _AnyName())


@router.get("/models/{name}/plan")
def plan(request: Request, name: str, version: str = "") -> Response:
    """Show the plan of a model of the repository."""
    return show_plan(request, _served(name, version))


@router.get("/models/{name}/plan/pin")
def pin(request: Request, name: str, version: str = "") -> Response:
    """Go to the page that tries the plan with some more pins."""
    return go_to_trial(request, _served(name, version))


@router.get("/models/{name}/plan.html")
def plan_file(request: Request, name: str, version: str = "") -> Response:
    """Answer with the plan as a file."""
    return download_plan(request, _served(name, version))


@router.post("/models/{name}/plan")
def apply(
    request: Request,
    visitor: OperatorForm,
    name: str,
    pin: Annotated[list[str], Form()],
    devices: Annotated[list[str], Form(alias="with", default_factory=list)],
    version: Annotated[str, Form()] = "",
) -> Response:
    """Have a model run by the plan that was tried."""
    try:
        choice = PinChoice.of(pin, devices) or PinChoice(())
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    place, collector = _served(name, version), collector_of(request)

    def action() -> str:
        collector.plans.running(place.subject)  # so that it can be compared with what comes
        pins = [framework_pb2.Pin(match=match, device=device) for match, device in choice.pins]
        lines = collector.contacts.framework().apply(name, pins, choice.devices, version)
        collector.plans.running(place.subject)
        return f"It is lost with the next load, unless the configuration has:\n{lines}" if lines.strip() else ""

    return done(request, visitor, action, f"{name} runs by the new plan.", place.address)


@router.get(_OF_SESSION)
def plan_of_session(request: Request, process: str, session: str, name: str) -> Response:
    """Show the plan of a model that a session has loaded."""
    return show_plan(request, _of_session(request, process, session, name))


@router.get(_OF_SESSION + "/pin")
def pin_of_session(request: Request, process: str, session: str, name: str) -> Response:
    """Go to the page that tries the plan with some more pins."""
    return go_to_trial(request, _of_session(request, process, session, name))


@router.get(_OF_SESSION + ".html")
def plan_file_of_session(request: Request, process: str, session: str, name: str) -> Response:
    """Answer with the plan as a file."""
    return download_plan(request, _of_session(request, process, session, name))


def _served(name: str, version: str) -> PlanPlace:
    return PlanPlace(PlanSubject(name, version), f"/models/{quote(name, safe='')}/plan")


def _of_session(request: Request, process: str, session: str, name: str) -> PlanPlace:
    host = collector_of(request).snapshot.host
    if host is None or host.name != process:
        raise LookupError(f"{process!r} has no loaded models, expected {host.name if host else 'a framework'!r}")
    path = "/".join(quote(part, safe="") for part in (process, session, "models", name, "plan"))
    return PlanPlace(PlanSubject(name, "", session), f"/sessions/{path}")
