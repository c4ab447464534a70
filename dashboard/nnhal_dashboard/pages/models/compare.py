"""Two plans side by side: of one model at two times, or of two models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.monitoring.plans import KnownPlan, PlanSubject
from nnhal_dashboard.pages.models.drawings import drawn_choice, drawn_comparison
from nnhal_dashboard.pages.models.plan_address import NEW, OLD, PlanAddress
from nnhal_dashboard.web.formats import clock
from nnhal_dashboard.web.request_state import collector_of, show_page

router = APIRouter()


@router.get("/compare")
def compare(request: Request, a: str = "", b: str = "") -> Response:
    """Show two plans, or the form that chooses them."""
    collector = collector_of(request)
    collector.look()
    values: dict[str, Any] = {
        "room": "/models",
        "choices": _choices(collector),
        "a": a,
        "b": b,
        "drawn": "",
        "told": None,
    }
    if a and b:
        try:
            address = PlanAddress.of("/compare", (("a", a), ("b", b)), request.query_params)
            old, new = _plan(collector, a), _plan(collector, b)
            titles = _title(collector, old, a), _title(collector, new, b)
            values["drawn"] = drawn_comparison(old, new, titles, address)
            values["told"] = drawn_choice(old, OLD, address) or drawn_choice(new, NEW, address)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
    return show_page(request, "models/compare.html", values, "Compare two plans")


def _choices(collector: Collector) -> list[tuple[str, str]]:
    """Return what the form offers, ``plan:KEY``, ``model:NAME`` or ``session:ID:NAME``, with titles."""
    framework = collector.snapshot.framework
    served = [model.name for model in framework.models if model.state == "READY"] if framework is not None else []
    loaded = framework.session_models if framework is not None else ()
    return [
        *((f"model:{name}", f"{name}, now") for name in dict.fromkeys(served)),
        *((f"session:{each.session}:{each.name}", f"{each.name} of session {each.session}") for each in loaded),
        *(
            (f"plan:{each.plan.key}", f"{each.subject.title}, seen at {clock(each.record.at_ns)}")
            for each in collector.plans.earlier()
        ),
    ]


def _plan(collector: Collector, choice: str) -> KnownPlan:
    """Return the plan that a form chooses. Raises ValueError, LookupError and NnhalError."""
    kind, _, rest = choice.partition(":")
    if kind == "plan":
        return collector.plans.find(rest)
    if kind == "model":
        return collector.plans.running(PlanSubject(rest)).plan
    if kind == "session":
        session, _, name = rest.partition(":")
        return collector.plans.running(PlanSubject(name, "", session)).plan
    raise ValueError(f"plan {choice[:40]!r}, expected plan:KEY, model:NAME or session:ID:NAME")


def _title(collector: Collector, plan: KnownPlan, choice: str) -> str:
    if not choice.startswith("plan:"):
        return choice.rpartition(":")[2] if choice.startswith("session:") else choice.partition(":")[2]
    dated = [each for each in collector.plans.earlier() if each.plan is plan]
    return f"{dated[0].subject.title}, {clock(dated[0].record.at_ns)}" if dated else plan.key
