"""The plan of a model: its graph, what each device said of each operation, and how it would run with other pins.

Models are those of the repository, and those that sessions have loaded for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from markupsafe import Markup
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import HTMLResponse, RedirectResponse, Response

from nnhal.errors import HalError, NnhalError
from nnhal_client.explanation import OperationStory
from nnhal_dashboard.monitoring.plans import KnownPlan, PlanBook, PlanRecord, PlanSubject, RunningPlan
from nnhal_dashboard.pages.memory.arenas import plan_state
from nnhal_dashboard.pages.models.drawings import (
    drawn_choice,
    drawn_comparison,
    drawn_facts,
    is_narrow,
    shown_plan,
    step_figures,
)
from nnhal_dashboard.pages.models.finding import folding, search
from nnhal_dashboard.pages.models.plan_address import NEW, OLD, PinChoice, PlanAddress, chosen_numbers
from nnhal_dashboard.web.formats import clock
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of, show_page, visitor_of
from nnhal_pages.comparison import pairs_of
from nnhal_pages.explanation.fragment import page as plan_document
from nnhal_pages.explanation.marks import counted
from nnhal_pages.explanation.refusals import refusals_of
from nnhal_pages.operating.resources.models import apply as apply_pins
from nnhal_pages.operating.snapshot import Snapshot
from nnhal_pages.operating.table import Done, OperatedSystem

router = APIRouter()
FRAGMENTS = ()
_OF_MODEL = "/models/{name}/plan"
_OF_SESSION = "/sessions/{process}/{session}/models/{name:any_name}/plan"
_TITLES = ("Now", "Tried")
_PART = "nnhal-part"
"""The header by which the script of the page asks for a part of it, by the id of its element."""
_CHOSEN = "models/chosen.html"
_PARTS = {"plan-view": "models/plan_view.html", "chosen": _CHOSEN}


class _AnyName(Convertor[str]):
    """Names that clients give to their own models: with slashes, and with ends of lines."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any_name", _AnyName())


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """A model, and the path of the page of its plan."""

    subject: PlanSubject
    path: str

    @classmethod
    def of(cls, request: Request, version: str = "") -> PlanPlace:
        """Read the address of a request. Raises LookupError if it names a process that has no models."""
        names = request.path_params
        if "session" not in names:
            return cls(PlanSubject(names["name"], version), f"/models/{quote(names['name'], safe='')}/plan")
        process, session, name = names["process"], names["session"], names["name"]
        host = collector_of(request).snapshot.host
        if host is None or host.name != process:
            raise LookupError(f"{process!r} has no loaded models, expected {host.name if host else 'a framework'!r}")
        path = "/".join(quote(part, safe="") for part in (process, session, "models", name, "plan"))
        return cls(PlanSubject(name, "", session), f"/sessions/{path}")

    @property
    def fixed(self) -> tuple[tuple[str, str], ...]:
        """The part of the page's query that says which model it is."""
        return (("version", self.subject.version),) if self.subject.version else ()

    @property
    def address(self) -> str:
        """The address of the page of the plan that runs."""
        return str(PlanAddress(self.path, self.fixed))

    @property
    def title(self) -> str:
        """The title of the page, and of its file."""
        return f"Plan of {self.subject.title}"


Place = Annotated[PlanPlace, Depends(PlanPlace.of)]


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """A plan that the model ran by before."""

    record: PlanRecord
    plan: KnownPlan | None
    """What was explained of it; None if no page has shown it."""
    gone: Sequence[str]
    """The devices without which it cannot run again."""
    again: PlanAddress
    """The page that tries it: there it is applied."""


@router.get(_OF_MODEL)
@router.get(_OF_SESSION)
def plan(request: Request, place: Place) -> Response:
    """Show the plan that a model runs by, and beside it the one that the query tries."""
    collector = collector_of(request)
    snapshot, book, query = collector.look(), collector.plans, request.query_params
    part = _PARTS.get(request.headers.get(_PART, ""), "")
    running = running_plan(book, snapshot, place, is_known=bool(part))
    explanation = running.plan.explanation
    figures, edges, arenas = drawn_facts(running.plan)
    try:
        trial = PinChoice.of(query.getlist("pin"), query.getlist("with"))
        again = query.get("again", "") if trial is not None else ""
        fixed = (*place.fixed, *(trial.query if trial is not None else ()), *((("again", again),) if again else ()))
        address = PlanAddress.of(place.path, fixed, query)
        tried, problem = _tried(book, place, trial)
        earlier = _earlier(book, place, running, _usable(snapshot, running))
        choice, step = trial or PinChoice(running.pins), address.chosen_step(OLD, explanation)
        values = {
            "of": place,
            "running": running,
            "explanation": explanation,
            "address": address,
            "is_trial": trial is not None,
            "choice": choice,
            "without": [
                PlanAddress(place.path, (*place.fixed, *choice.without(number).query))
                for number in range(len(choice.pins))
            ],
            "tried": tried,
            "problem": problem,
            "drawn": _drawn(running.plan, tried, address) if part != _CHOSEN else Markup(""),
            "is_split": part != _CHOSEN and tried is None and is_narrow(running.plan, address),
            "refusals": refusals_of(explanation),
            "search": search(running.plan, address),
            "folding": folding(running.plan, address),
            "all_open": address.with_open(OLD, "all").with_open(NEW, "all" if tried is not None else ""),
            "all_closed": address.with_open(OLD, "").with_open(NEW, ""),
            "chosen": address.chosen(OLD, explanation),
            "panel": _panel(running.plan, tried, address),
            "of_step": step_figures(collector.contacts, running, step) if step is not None else Markup(""),
            "figures": figures,
            "edges": edges,
            "arenas": arenas,
            "devices": _usable(snapshot, running),
            "again": _again(earlier, tried, again),
            "earlier": list(earlier.values()),
        }
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    return show_page(request, part or "models/plan.html", values, place.title)


def _tried(book: PlanBook, place: PlanPlace, trial: PinChoice | None) -> tuple[KnownPlan | None, str]:
    """Return the plan that is tried, if one is, or why there is none."""
    if trial is None:
        return None, ""
    try:
        return book.sketched(place.subject, trial.pins, trial.devices), ""
    except NnhalError as error:
        return None, str(error)


def _drawn(plan: KnownPlan, tried: KnownPlan | None, address: PlanAddress) -> Markup:
    if tried is None:
        return shown_plan(plan, address)
    return drawn_comparison(plan, tried, _TITLES, replace(address, find=""))


def _panel(plan: KnownPlan, tried: KnownPlan | None, address: PlanAddress) -> tuple[str, Markup] | None:
    panel = drawn_choice(plan, OLD, address)
    return drawn_choice(tried, NEW, address) if panel is None and tried is not None else panel


def _earlier(book: PlanBook, place: PlanPlace, running: RunningPlan, usable: Sequence[str]) -> dict[str, EarlierPlan]:
    """Return the plans that the model ran by before, the newest first, and how each is to run again.

    They are those that pages have shown, and those that the framework tells: a command may have changed the plan.
    """
    now = [device.name for device in running.plan.explanation.devices]
    seen = book.earlier(place.subject)
    kept: list[tuple[str, PlanRecord, KnownPlan | None]] = [
        (each.plan.key, each.record, each.plan) for each in seen if each.plan is not running.plan
    ]
    known = [each.record.likeness for each in seen]
    kept += [(f"since {each.at_ns}", each, None) for each in running.history if each.likeness not in known]
    found: dict[str, EarlierPlan] = {}
    for key, record, plan in sorted(kept, key=lambda each: -each[1].at_ns):
        # Without devices, the framework keeps those that the plan that runs was allowed.
        choice = PinChoice(record.pins, () if sorted(record.allowed) == sorted(now) else record.allowed)
        again = PlanAddress(place.path, (*place.fixed, *choice.query, ("again", key)))
        gone = [name for name in record.devices if name not in usable]
        found.setdefault(key, EarlierPlan(record, plan, gone, again))
    return found


def _again(earlier: Mapping[str, EarlierPlan], tried: KnownPlan | None, key: str) -> str:
    """Say how a plan that is tried compares with the earlier one that it is to be."""
    wanted = earlier.get(key)
    if wanted is None or tried is None:
        return ""
    new, at = tried.explanation, clock(wanted.record.at_ns)
    if wanted.plan is None:
        steps = tuple(step.device for step in new.steps)
        ran, runs = (", ".join(names) for names in (wanted.record.steps, steps))
        if ran == runs:
            return f"It has the pins of the plan of {at} UTC, and the same steps: {runs}."
        return f"It has the pins of the plan of {at} UTC, and other steps: {runs}, where there were {ran}."
    old = wanted.plan.explanation
    pairs = [(pair.old, pair.new) for pair in pairs_of(old, new)]
    placed = [(old.operations[a].device, new.operations[b].device) for a, b in pairs if a is not None and b is not None]
    moved = sum(before != after for before, after in placed) + sum(None in pair for pair in pairs)
    if not moved:
        return f"It is the plan that was seen at {at} UTC: every operation runs where it ran."
    operations = counted(moved, "operation")
    return f"With the pins of the plan that was seen at {at} UTC, {operations} would run elsewhere than they did."


def _usable(snapshot: Snapshot, running: RunningPlan) -> list[str]:
    framework = snapshot.framework
    if framework is None:
        return [device.name for device in running.plan.explanation.devices]
    return [device.name for device in framework.devices if device.available and not device.draining]


@router.get(_OF_MODEL + "/pin")
@router.get(_OF_SESSION + "/pin")
def pin(request: Request, place: Place) -> Response:
    """Go to the page that tries the plan with the operations pinned that a form chooses."""
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


@router.get(_OF_MODEL + ".html")
@router.get(_OF_SESSION + ".html")
def plan_file(request: Request, place: Place) -> Response:
    """Answer with the plan as one file that needs no other."""
    collector = collector_of(request)
    explanation = running_plan(collector.plans, collector.look(), place).plan.explanation
    name = quote(f"plan of {place.subject.title}.html", safe="")
    headers = {"content-disposition": f"attachment; filename=plan.html; filename*=UTF-8''{name}"}
    return HTMLResponse(plan_document(explanation, place.title), headers=headers)


@router.post(_OF_MODEL)
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
    place, collector = PlanPlace.of(request, version), collector_of(request)

    def action(at: OperatedSystem) -> Done:
        collector.plans.running(place.subject)  # so that it can be compared with what comes
        texts = [f"{match}={device}" for match, device in choice.pins]
        applied = apply_pins(at, name, texts, list(choice.devices), version)
        collector.plans.running(place.subject)
        lines = applied.values["config_lines"]
        more = f" It is lost with the next load, unless the configuration has:\n{lines}" if lines.strip() else ""
        return Done(applied.sentence + more)

    return done(request, visitor, action, place.address)


def running_plan(book: PlanBook, snapshot: Snapshot, place: PlanPlace, is_known: bool = False) -> RunningPlan:
    """Return the plan that a model runs by. Raises LookupError if it is unknown, HTTPException (409) if it has none.

    With ``is_known`` the framework is asked for it only if something has happened since it was asked the last time.
    """
    subject, framework = place.subject, snapshot.framework
    if framework is not None:
        served = {model.name for model in framework.models}
        loaded = {(model.session, model.name) for model in framework.session_models}
        if subject.model not in served if not subject.session else (subject.session, subject.model) not in loaded:
            raise LookupError(f"the framework has no model {subject.title!r}")
    try:
        return book.unchanged(subject, plan_state(snapshot)) if is_known else book.running(subject)
    except HalError as error:
        raise HTTPException(409, str(error)) from error
