"""Events as a page, as a live part, and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from urllib.parse import unquote, urlencode

from fastapi import APIRouter, Form, Request
from starlette.responses import JSONResponse, Response

from nnhal.v1 import supervisor_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.events import mark_of, written
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.ranges import RANGES, OwnTime, range_of
from nnhal_dashboard.web.request_state import collector_of, selection_of, show_page
from nnhal_dashboard.web.selection import QuerySelection
from nnhal_pages.charts.marks import SIGNS
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.resources import RESOURCES
from nnhal_pages.operating.snapshot import Snapshot

SHOWN = 200
"""Events on a page, the newest."""


def selected(parameters: Mapping[str, str]) -> QuerySelection:
    """Return what events a query selects. Raises ValueError.

    ``kind`` is the mark that charts have for them, ``device`` and ``model`` what they are about or name. A ``range``
    until now does not count if the query has a time of its own.
    """
    names = ("kind", "device", "model", "text", "range")
    found = QuerySelection.of(parameters, names, {"kind": SIGNS, "range": RANGES}, has_time=True)
    return found if found.time is None else replace(found, given={**found.given, "range": ""})


def events_of(selection: QuerySelection, snapshot: Snapshot) -> list[supervisor_pb2.ProcessEvent]:
    """Return the events that are as asked, the newest first."""
    time = selection.time
    if time is None and selection["range"]:
        time = OwnTime(snapshot.at - RANGES[selection["range"]].seconds)
    return [
        event
        for event in reversed(snapshot.events)
        if (time is None or time.has(event.at_ns / 1e9)) and _takes(selection, event)
    ]


def _takes(selection: QuerySelection, event: supervisor_pb2.ProcessEvent) -> bool:
    if selection["kind"] and mark_of(event) != selection["kind"]:
        return False
    if not all(_concerns(event, name) for name in (selection["device"], selection["model"]) if name):
        return False
    return selection.is_within("text", f"{event.subject} {event.text}")


def _concerns(event: supervisor_pb2.ProcessEvent, name: str) -> bool:
    return event.subject == name or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", event.text) is not None


router = APIRouter()


@router.get("/events")
def events(request: Request) -> Response:
    """Show what has happened, as the query selects it."""
    selection, snapshot = selection_of(request, selected), collector_of(request).look()
    shown = None if selection.time is not None else range_of(request)
    if shown is not None:
        selection = replace(selection, given={**selection.given, "range": shown.name})
    framework = snapshot.framework
    models = {model.name for model in framework.models} if framework is not None else set()
    values = {
        "selection": selection,
        "range": shown,
        "kinds": SIGNS,
        "devices": [device.name for device in snapshot.devices],
        "models": sorted(models),
        "query": urlencode(selection.parameters),
    }
    return show_page(request, "events/events.html", values, "Events")


@router.get("/events.json")
def events_as_json(request: Request) -> Response:
    """Answer with the events, the newest first."""
    found = events_of(selection_of(request, selected), collector_of(request).look())
    return JSONResponse([{"at": written(event.at_ns / 1e9), "mark": mark_of(event), **plain(event)} for event in found])


@router.post("/events/undo")
def undo(
    request: Request, visitor: OperatorForm, at_ns: Annotated[int, Form()], subject: Annotated[str, Form()]
) -> Response:
    """Undo what an event tells."""
    events = collector_of(request).snapshot.events
    event = next((each for each in events if (each.at_ns, each.subject) == (at_ns, subject) and each.undo), None)
    if event is None:
        raise LookupError(f"no event of {subject} at that instant can be undone")
    address, _, given = event.undo.partition(" ")
    resource, _, rest = address.partition("/")
    name, _, verb = rest.rpartition("/")
    act = partial(RESOURCES[resource].verb(verb).act, **json.loads(given or "{}"))
    return done(request, visitor, lambda at: act(at, unquote(name)), "/events")


def _list(moment: Moment) -> Mapping[str, Any]:
    selection = selected(moment.parameters)
    found = events_of(selection, moment.snapshot)
    return {
        "events": found[:SHOWN],
        "left_out": len(found) - SHOWN,
        "is_narrow": any(selection[name] for name in ("kind", "device", "model", "text")),
    }


FRAGMENTS = (Fragment("events.list", "events/list.html", _list),)
