"""Whatever strangers call things, on every page it is text: every string that processes say is an attack here."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from google.protobuf.message import Message

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.access.gate import Gate
from nnhal_dashboard.app import PAGES
from nnhal_dashboard.live.fragments import key_of
from nnhal_pages.operating.snapshot import ObservedProcess
from tests.support.dashboard import PageBrowser, ScriptedCollector

ATTACKS = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "' onfocus='alert(1)' autofocus='",
    "javascript:alert(1)",
    "</title></style></svg></textarea><svg onload=alert(1)>",
    "{{ 7 * 191 }}{% include 'base.html' %}",
    "line\r\nx-header: one\x1b[31m\x00\u202eevil",
)
DEEPEST = 6
M = TypeVar("M", bound=Message)


def filled(kind: type[M], attack: str, depth: int = 0) -> M:
    """Return a message whose every text is an attack; of everything repeated there are two."""
    message = kind()
    for field in message.DESCRIPTOR.fields:
        _fill(message, field, attack, depth)
    return message


def _fill(message: Message, field: Any, attack: str, depth: int) -> None:
    kind, inner = field.cpp_type, field.message_type
    if kind == field.CPPTYPE_MESSAGE:
        if depth == DEEPEST:
            return
        if inner.GetOptions().map_entry:
            values = getattr(message, field.name)
            if inner.fields_by_name["value"].message_type is None:
                values[attack] = attack
            else:
                values[attack].labels.append(attack)
        elif field.is_repeated:
            for _ in range(2):
                item = getattr(message, field.name).add()
                item.CopyFrom(filled(type(item), attack, depth + 1))
        else:
            item = getattr(message, field.name)
            item.CopyFrom(filled(type(item), attack, depth + 1))
        return
    value = _value(field, attack)
    if field.is_repeated:
        getattr(message, field.name).extend([value, value])
    else:
        setattr(message, field.name, value)


def _value(field: Any, attack: str) -> object:
    if field.cpp_type == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            return attack.encode()
        return json.dumps({attack: [attack]}) if field.name.endswith("_json") else attack
    if field.cpp_type == field.CPPTYPE_ENUM:
        return field.enum_type.values[-1].number
    return True if field.cpp_type == field.CPPTYPE_BOOL else 1


class MarkupReader(HTMLParser):
    """Collects what a browser would run or follow."""

    def __init__(self) -> None:
        super().__init__()
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        handlers = [name for name in given if name.startswith("on") or name == "autofocus"]
        leads = [given[name] for name in ("href", "src", "action", "formaction") if name in given]
        foreign = [address for address in leads if not re.match(r"/(?!/)|[?#]|$", address)]
        is_own_script = tag == "script" and given.get("src", "").startswith("/static/")
        if handlers or foreign or (tag in ("script", "img", "iframe", "object") and not is_own_script):
            self.active.append(f"<{tag} {given}>")


def active_in(text: str) -> list[str]:
    reader = MarkupReader()
    reader.feed(text)
    return reader.active


def attacked(attack: str) -> PageBrowser:
    process = filled(admin_pb2.GetProcessResponse, attack)
    supervised = filled(supervisor_pb2.SupervisedProcess, attack)
    supervised.state = supervisor_pb2.SupervisedProcess.STATE_RUNNING
    device = filled(admin_pb2.GetDeviceResponse, attack)
    framework = filled(framework_admin_pb2.GetFrameworkResponse, attack)
    for model in framework.models:
        model.state = "READY"
    collector = ScriptedCollector(
        ObservedProcess(attack, "device", attack, supervised, process=process, device=device),
        ObservedProcess(attack + "2", "device", attack, None, attack, process=process, device=device),
        ObservedProcess("framework", "framework", attack, process=process),
        ObservedProcess(attack + "3", "dashboard"),
        supervisor=filled(supervisor_pb2.ListProcessesResponse, attack),
        framework=framework,
        live=tuple(process.executions),
        finished=(filled(framework_admin_pb2.FinishedRun, attack),),
        recordings=(filled(framework_admin_pb2.RecordingState, attack),),
        events=tuple(framework.events),
    )
    refusal = HalError(ErrorStatus.INVALID_ARGUMENT, attack)
    recording = filled(framework_admin_pb2.GetRecordingResponse, attack, DEEPEST - 1)
    collector.contacts.answers.update(
        {
            ("framework", "explain"): refusal,
            ("framework", "plan"): refusal,
            ("framework", "recording"): recording,
            ("framework", "served_model"): filled(framework_admin_pb2.GetServedModelResponse, attack, DEEPEST - 1),
            ("supervisor", "logs"): filled(supervisor_pb2.TailLogsResponse, attack),
        }
    )
    return PageBrowser(collector)


def addresses(attack: str) -> list[str]:
    name = quote(attack, safe="")
    query = urlencode({"process": attack, "session": attack, "model": attack, "text": attack, "client": attack})
    return [
        "/",
        "/devices",
        f"/devices/{name}",
        f"/devices/{name}2",
        "/processes/framework",
        f"/processes/{name}3",
        "/models",
        f"/models/{name}",
        f"/models/{name}/versions/{name}",
        f"/models/{name}/plan",
        f"/sessions/framework/{name}/models/{name}/plan",
        f"/runs?{query}",
        "/runs/1",
        "/recordings/1",
        f"/memory?{query}",
        f"/memory/arena?{query}",
        f"/sessions?{query}",
        f"/sessions/{name}/{name}",
        f"/metrics?minutes={name}",
        f"/events?{query}",
        f"/events?kind={name}",
        f"/runs?from={name}",
        f"/logs?{query}",
        f"/logs?level={name}",
        f"/try?model={name}",
        f"/login?to={name}",
        f"/{name}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_strangers_call_things_is_text_on_every_page(attack: str) -> None:
    browser = attacked(attack)
    for address in addresses(attack):
        answer = browser.get(address)
        assert answer.status_code < 500 or answer.status_code == 502, address
        assert not active_in(answer.text), address
        assert "1337" not in answer.text, address
        assert "x-header" not in answer.headers


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_strangers_call_things_is_text_in_every_live_part(attack: str) -> None:
    browser = attacked(attack)
    assert isinstance(browser.app, Gate)
    inner = browser.app._app
    assert isinstance(inner, FastAPI)
    parameters = dict.fromkeys(("process", "device", "model", "version", "session", "text", "client"), attack)
    for fragment in (fragment for page in PAGES for fragment in page.FRAGMENTS):
        for given in ({}, parameters, parameters | {"number": "1", "shown": "1", "minutes": "5", "index": "0"}):
            try:
                text = inner.state.renderer.fragment(key_of(fragment.name, given))
            except (LookupError, ValueError):
                continue
            assert not active_in(text), fragment.name
