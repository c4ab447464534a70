"""The plan of a model: its graph, what each device said of each operation, and how it would run with other pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import HTTPException, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from nnhal.errors import HalError, NnhalError
from nnhal_client.explanation import OperationStory
from nnhal_dashboard.pages.models.drawings import drawn_choice, drawn_comparison, drawn_facts, drawn_plan
from nnhal_dashboard.pages.models.pin_choice import PinChoice, chosen_numbers
from nnhal_dashboard.pages.models.plan_address import NEW, OLD, PlanAddress
from nnhal_dashboard.pages.models.step_figures import step_figures
from nnhal_dashboard.web.request_state import collector_of, show_page, visitor_of
from nnhal_dashboard.world.plans import KnownPlan, PlanBook, PlanSubject, RunningPlan
from nnhal_dashboard.world.snapshot import Snapshot
from nnhal_pages.explanation.fragment import page as plan_document

_TITLES = ("Now", "Tried")


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """A model, and the path of the page of its plan."""

    subject: PlanSubject
    path: str

    @property
    def fixed(self) -> tuple[tuple[str, str], ...]:
        """The part of the page's query that says which model it is."""
        return (("version", self.subject.version),) if self.subject.version else ()

    @property
    def address(self) -> str:
        """The address of the page of the plan that runs."""
        return str(PlanAddress(self.path, self.fixed))


def show_plan(request: Request, place: PlanPlace) -> Response:
    """Show the plan that a model runs by, and beside it the one that the query tries."""
    collector = collector_of(request)
    snapshot, book = collector.look(), collector.plans
    running = running_plan(book, snapshot, place)
    try:
        values = _shown(request, place, book, running)
        step = values["address"].chosen_step(OLD, running.plan.explanation)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    figures, edges, arenas = drawn_facts(running.plan)
    values |= {
        "of": place,
        "running": running,
        "explanation": running.plan.explanation,
        "figures": figures,
        "edges": edges,
        "arenas": arenas,
        "of_step": step_figures(collector.contacts, running, step) if step is not None else "",
        "devices": _usable(snapshot, running),
        "earlier": [each for each in book.earlier(place.subject) if each.plan is not running.plan],
    }
    return show_page(request, "models/plan.html", values, f"Plan of {place.subject.title}")


def _shown(request: Request, place: PlanPlace, book: PlanBook, running: RunningPlan) -> dict[str, Any]:
    """Return what depends on the query. Raises ValueError and LookupError if it makes no sense."""
    query = request.query_params
    choice = PinChoice.of(query.getlist("pin"), query.getlist("with"))
    fixed = (*place.fixed, *(choice.query if choice is not None else ()))
    address = PlanAddress.of(place.path, fixed, query)
    tried, problem = None, ""
    if choice is not None:
        try:
            tried = book.sketched(place.subject, choice.pins, choice.devices)
        except NnhalError as error:
            problem = str(error)
    shown = choice or PinChoice(running.pins)
    return {
        "address": address,
        "choice": shown,
        "is_trial": choice is not None,
        "tried": tried,
        "problem": problem,
        "drawn": _drawn(running.plan, tried, address),
        "told": _told(running.plan, tried, address),
        "all_open": address.with_open(OLD, "all").with_open(NEW, "all" if tried is not None else ""),
        "all_closed": address.with_open(OLD, "").with_open(NEW, ""),
        "without": [
            PlanAddress(place.path, (*place.fixed, *shown.without(number).query)) for number in range(len(shown.pins))
        ],
        "chosen": address.chosen(OLD, running.plan.explanation),
    }


def _drawn(plan: KnownPlan, tried: KnownPlan | None, address: PlanAddress) -> str:
    return drawn_plan(plan, address) if tried is None else drawn_comparison(plan, tried, _TITLES, address)


def _told(plan: KnownPlan, tried: KnownPlan | None, address: PlanAddress) -> tuple[str, str] | None:
    told = drawn_choice(plan, OLD, address)
    return drawn_choice(tried, NEW, address) if told is None and tried is not None else told


def go_to_trial(request: Request, place: PlanPlace) -> Response:
    """Go to the page that tries a plan with the operations pinned that a form chooses."""
    query = request.query_params
    collector = collector_of(request)
    running = running_plan(collector.plans, collector.look(), place)
    try:
        choice = PinChoice.of(query.getlist("pin"), query.getlist("with")) or PinChoice(running.pins)
        device = query.get("device", "")
        if device:
            operations = running.plan.explanation.operations
            places = chosen_numbers(query.getlist("at"), query.get("from", ""), query.get("to", ""), len(operations))
            choice = choice.pinned(_numbers_of(operations, places), device)
    except ValueError as error:
        visitor_of(request).notices.append(("failed", str(error)))
        back = [*place.fixed, *((name, text) for name in ("pin", "with") for text in query.getlist(name))]
        return RedirectResponse(str(PlanAddress(place.path, tuple(back))) + "#pin", 303)
    return RedirectResponse(str(PlanAddress(place.path, (*place.fixed, *choice.query))), 303)


def _numbers_of(operations: Sequence[OperationStory], places: Sequence[int]) -> list[int]:
    """Return the numbers by which pins name operations. Raises ValueError if none of them can be pinned so."""
    numbers = [number for number in (operations[place].number for place in places) if number is not None]
    if places and not numbers:
        raise ValueError("none of these operations is in the model: the framework added them, or control flow has them")
    return numbers


def download_plan(request: Request, place: PlanPlace) -> Response:
    """Answer with the plan as one file that needs no other."""
    collector = collector_of(request)
    explanation = running_plan(collector.plans, collector.look(), place).plan.explanation
    name = quote(f"plan of {place.subject.title}.html", safe="")
    headers = {"content-disposition": f"attachment; filename=plan.html; filename*=UTF-8''{name}"}
    return HTMLResponse(plan_document(explanation, f"Plan of {place.subject.title}"), headers=headers)


def running_plan(book: PlanBook, snapshot: Snapshot, place: PlanPlace) -> RunningPlan:
    """Return the plan that a model runs by. Raises LookupError if it is unknown, HTTPException (409) if it has none."""
    subject, framework = place.subject, snapshot.framework
    if framework is not None:
        served = {model.name for model in framework.models}
        loaded = {(model.session, model.name) for model in framework.session_models}
        if subject.model not in served if not subject.session else (subject.session, subject.model) not in loaded:
            raise LookupError(f"the framework has no model {subject.title!r}")
    try:
        return book.running(subject)
    except HalError as error:
        raise HTTPException(409, str(error)) from error


def _usable(snapshot: Snapshot, running: RunningPlan) -> list[str]:
    """Return the devices to which an operation can be pinned."""
    framework = snapshot.framework
    if framework is None:
        return [device.name for device in running.plan.explanation.devices]
    return [device.name for device in framework.devices if device.available and not device.draining]
