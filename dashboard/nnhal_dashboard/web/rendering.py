"""Pages from templates: with the visitor's role, form tokens and notices, and with parts that are live."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from nnhal_dashboard.access.visitors import Visitor
from nnhal_dashboard.live.fragments import Fragments, Moment, key_of, parse_key
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.monitoring.events import mark_of, moment_page
from nnhal_dashboard.monitoring.states import absence_words, requests_wait
from nnhal_dashboard.web import formats
from nnhal_dashboard.web.folding import FoldingTables
from nnhal_dashboard.web.ranges import RANGES
from nnhal_dashboard.web.static import version
from nnhal_hosting.access import AccessRole
from nnhal_pages.charts.marks import SIGNS
from nnhal_pages.copies import NAMES

NAVIGATION = (
    ("/", "Overview"),
    ("/devices", "Devices"),
    ("/models", "Models"),
    ("/runs", "Runs"),
    ("/memory", "Memory"),
    ("/sessions", "Sessions"),
    ("/clients", "Clients"),
    ("/metrics", "Metrics"),
    ("/events", "Events"),
    ("/try", "Try it"),
    ("/logs", "Logs"),
)
"""The pages by their addresses, in the order in which they are listed."""
_MARK = secrets.token_hex(16)
_FORM_TOKEN = f"form-token-{_MARK}"
"""Stands for the visitor's form token in what is rendered for all visitors."""
_DISABLED = f"data-role-{_MARK}"
"""Stands for the attribute of controls that the visitor may not use: followed by the role that they need."""


class Renderer:
    """Renders pages and their live parts. Safe to use from several threads."""

    def __init__(self, collector: Collector, fragments: Fragments) -> None:
        self._collector = collector
        self._fragments = fragments
        self._templates = Environment(
            loader=ChoiceLoader([PackageLoader("nnhal_dashboard", folder) for folder in ("templates", "pages")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[FoldingTables],
        )
        self._templates.globals.update(
            live=self._live,
            form_token=Markup(f"<input type='hidden' name='form_token' value='{_FORM_TOKEN}'>"),
            needs=needs,
            navigation=NAVIGATION,
            all_ranges=list(RANGES.values()),
            copy_names=NAMES,
            requests_wait=requests_wait,
            absence_words=absence_words,
            signs=SIGNS,
            files_version=version,
        )
        self._templates.filters.update(formats.FILTERS, mark=mark_of, moment_page=moment_page)

    def fragment(self, key: str) -> str:
        """Render a live part by its key, with marks for what is a visitor's own. Raises LookupError."""
        name, parameters = parse_key(key)
        fragment = self._fragments.find(name)
        moment = Moment(self._collector.snapshot, self._collector, parameters)
        values = {"snapshot": moment.snapshot, **fragment.values(moment)}
        return self._templates.get_template(fragment.template).render(values)

    def page(
        self, request: Request, template: str, values: Mapping[str, Any], title: str, status: int = 200
    ) -> HTMLResponse:
        """Render a page. ``title`` is its heading, plain text."""
        visitor: Visitor = request.state.visitor
        notices, visitor.notices = visitor.notices, []
        text = self._templates.get_template(template).render(
            values,
            title=title,
            path=request.url.path,
            visitor=visitor,
            must_sign_in=request.app.state.visitors.must_sign_in,
            notices=notices,
            snapshot=self._collector.snapshot,
        )
        return HTMLResponse(personal(text, visitor), status)

    def _live(self, name: str, element: str = "div", **parameters: object) -> Markup:
        """Place a live part in a template: ``{{ live('overview.problems') }}``."""
        key = key_of(name, {each: str(value) for each, value in parameters.items()})
        try:
            content = self.fragment(key)
        except LookupError as error:
            content = str(escape(str(error)))
        return Markup(f"<{element} data-live='{escape(key)}'>{content}</{element}>")


def needs(role: str) -> Markup:
    """Write the attribute of a control that only a role may use: ``<button {{ needs("admin") }}>``."""
    return Markup(f"{_DISABLED}={AccessRole[role.upper()].value}")


def personal(text: str, visitor: Visitor) -> str:
    """Put what is the visitor's own in place of the marks."""
    text = text.replace(_FORM_TOKEN, visitor.form_token)
    for role in AccessRole:
        text = text.replace(f"{_DISABLED}={role.value}", "" if visitor.may(role) else "disabled")
    return text
