"""Events as a page, as a live part, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import JSONResponse, Response

from nnhal.v1 import supervisor_pb2
from nnhal_dashboard.live.fragments import Fragment, Moment
from nnhal_dashboard.monitoring.events import mark_of, written
from nnhal_dashboard.pages.page import Page
from nnhal_dashboard.web.ranges import RANGES, OwnTime, range_named, range_of
from nnhal_dashboard.web.request_state import collector_of, show_page
from nnhal_pages.charts.marks import SIGNS
from nnhal_pages.operating.snapshot import Snapshot

SHOWN = 200
"""Events on a page, the newest."""


@dataclass(frozen=True, slots=True)
class EventSelection:
    """What an event must be; an empty value asks for nothing."""

    kind: str = ""
    """The mark that charts have for it: one of SIGNS."""
    device: str = ""
    """What it is about, or names in its text."""
    model: str = ""
    text: str = ""
    """What it contains, in any case."""
    range: str = ""
    """The name of a time until now."""
    time: OwnTime | None = None
    """A time of its own; then ``range`` does not count."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> EventSelection:
        """Return the selection of a query. Raises ValueError if the kind, the range or an instant is none."""
        kind, device, model, text, shown = (
            parameters.get(name, "") for name in ("kind", "device", "model", "text", "range")
        )
        chosen = cls(kind, device, model, text, shown, OwnTime.of(parameters))
        if chosen.kind and chosen.kind not in SIGNS:
            raise ValueError(f"kind is {chosen.kind[:20]!r}, expected one of {', '.join(SIGNS)}")
        if chosen.range:
            range_named({"range": chosen.range})
        return chosen

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the selection."""
        given = {"kind": self.kind, "device": self.device, "model": self.model, "text": self.text}
        given |= self.time.parameters if self.time is not None else {"range": self.range}
        return {name: value for name, value in given.items() if value}

    def of_events(self, snapshot: Snapshot) -> list[supervisor_pb2.ProcessEvent]:
        """Return the events that are as asked, the newest first."""
        time = self.time
        if time is None and self.range:
            time = OwnTime(snapshot.at - RANGES[self.range].seconds)
        return [
            event
            for event in reversed(snapshot.events)
            if (time is None or time.has(event.at_ns / 1e9)) and self._takes(event)
        ]

    def _takes(self, event: supervisor_pb2.ProcessEvent) -> bool:
        if self.kind and mark_of(event) != self.kind:
            return False
        if not all(_concerns(event, name) for name in (self.device, self.model) if name):
            return False
        return self.text.lower() in f"{event.subject} {event.text}".lower()


def _concerns(event: supervisor_pb2.ProcessEvent, name: str) -> bool:
    return event.subject == name or re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", event.text) is not None


router = APIRouter()


@router.get("/events")
def events(request: Request) -> Response:
    """Show what has happened, as the query selects it."""
    selection, snapshot = _selection(request), collector_of(request).look()
    shown = None if selection.time is not None else range_of(request)
    if shown is not None:
        selection = replace(selection, range=shown.name)
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
    found = _selection(request).of_events(collector_of(request).look())
    return JSONResponse(
        [
            {
                "at": written(event.at_ns / 1e9),
                "at_ns": event.at_ns,
                "kind": event.kind,
                "mark": mark_of(event),
                "subject": event.subject,
                "text": event.text,
            }
            for event in found
        ]
    )


def _selection(request: Request) -> EventSelection:
    try:
        return EventSelection.of(request.query_params)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def _list(moment: Moment) -> Mapping[str, Any]:
    selection = EventSelection.of(moment.parameters)
    found = selection.of_events(moment.snapshot)
    return {
        "events": found[:SHOWN],
        "left_out": len(found) - SHOWN,
        "is_narrow": bool(selection.kind or selection.device or selection.model or selection.text),
    }


PAGE = Page(router, (Fragment("events.list", "events/list.html", _list),))
