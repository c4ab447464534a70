"""The dashboard's pages without processes: over snapshots that a test writes, and contacts that note calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import httpx

from nnhal.clock import now_ns
from nnhal.errors import TransportError
from nnhal.remote.admin import FrameworkAdmin
from nnhal.remote.faults import FaultState
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.access.visitors import Visitors
from nnhal_dashboard.app import create_app
from nnhal_dashboard.monitoring.collector import Collector
from nnhal_dashboard.monitoring.faults import FaultWatch
from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.logbook import Logbook
from nnhal_dashboard.monitoring.pace import PaceWatch
from nnhal_dashboard.monitoring.plans import PlanBook
from nnhal_dashboard.monitoring.problems import problems_of
from nnhal_dashboard.monitoring.traffic import TrafficWatch
from nnhal_dashboard.settings import DashboardSettings
from nnhal_hosting.access import AllowedHosts, Tokens
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, ObservedProcess, Snapshot

_FORM_TOKEN = re.compile(r"name='form_token' value='([^']*)'")
NO_FORM_TOKEN = "there is no form on the page"
"""What a post carries if its page has no form."""


class ScriptedContact:
    """One process: each method is noted with its arguments, and answers what a test has laid down, or None."""

    def __init__(self, name: str, script: ScriptedContacts) -> None:
        self._name = name
        self._script = script

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def answer(*arguments: Any, **named: Any) -> Any:
            self._script.calls.append((self._name, method, arguments, named))
            value = self._script.answers.get((self._name, method))
            if isinstance(value, Exception):
                raise value
            return value(*arguments, **named) if callable(value) else value

        return answer


class ScriptedContacts:
    """In place of ``Contacts``."""

    def __init__(self, collector: ScriptedCollector) -> None:
        self._collector = collector
        self.calls: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = []
        """What was asked: process, method, arguments, and arguments with names."""
        self.answers: dict[tuple[str, str], Any] = {
            ("framework", "explain"): framework_admin_pb2.ExplainTargetResponse(),
            ("framework", "find_runs"): (),
        }
        """By process and method: a value, a function of the arguments, or an error to raise."""
        self.changes: list[supervisor_pb2.ProcessEvent] = []
        """What operators have done, as they had it noted."""
        self.faults: dict[str, list[FaultState]] = {}
        """Those of the devices that take faults."""

    def note_change(self, change: supervisor_pb2.ProcessEvent) -> None:
        self.changes.append(change)

    def supervisor(self) -> ScriptedContact:
        return self._of("supervisor")

    def framework(self) -> ScriptedContact:
        return self._of("framework")

    def device(self, name: str) -> ScriptedContact:
        """A device. Raises LookupError if no snapshot has it."""
        return self.process(name)

    def process(self, name: str) -> ScriptedContact:
        """A process. Raises LookupError if no snapshot has it."""
        if self._collector.snapshot.find(name) is None:
            raise LookupError(f"no process {name!r}")
        return self._of(name)

    def fault_states(self, name: str) -> list[FaultState]:
        """The faults of a device; without an answer it takes none."""
        if name not in self.faults:
            raise TransportError("it has no FaultService")
        return self.faults[name]

    def set_faults(self, name: str, *faults: Mapping[str, Any]) -> list[str]:
        self.process(name).set_faults(*faults)
        return [str(each.get("name", each["what"])) for each in faults]

    def clear_faults(self, name: str, names: Sequence[str] = ()) -> int:
        self.process(name).clear_faults(names)
        return len(names)

    def _of(self, name: str) -> ScriptedContact:
        error = self.answers.get((name, "connect"))
        if isinstance(error, Exception):
            raise error
        return ScriptedContact(name, self)


class ScriptedCollector:
    """In place of ``Collector``: what pages see is what a test shows."""

    def __init__(self, *processes: ObservedProcess, **fields: Any) -> None:
        """``fields`` are those of ``Snapshot``."""
        self.snapshot = Snapshot()
        self.history = History()
        self.contacts = ScriptedContacts(self)
        self.logbook = Logbook(cast(Contacts, self.contacts), lambda: self.snapshot)
        self.plans = PlanBook(cast(Callable[[], FrameworkAdmin], self.contacts.framework))
        self.traffic = TrafficWatch(cast(Callable[[], FrameworkAdmin], self.contacts.framework), _at_once)
        self.faults = FaultWatch(cast(Contacts, self.contacts), _at_once)
        self._paces = PaceWatch(self.history, self.traffic)
        self._listeners: list[Callable[[Snapshot], None]] = []
        self.show(*processes, **fields)

    def show(self, *processes: ObservedProcess, **fields: Any) -> None:
        """Have pages see another snapshot, a second after the last."""
        number = self.snapshot.number + 1
        at, last = fields.setdefault("at", 1.7e9 + number), self.snapshot
        passed = max(1.0, at - last.at) if number > 1 else 0.0
        fields.setdefault("at_ns", (last.at_ns or now_ns()) + round(passed * 1e9))
        devices = [process.device for process in processes if process.device is not None]
        for answer in (fields.get("framework"), *devices):
            if answer is not None:
                answer.at_ns = answer.at_ns or round(at * 1e9)
        snapshot = Snapshot(number=number, processes=processes, **fields)
        self.history.add(snapshot)
        self.traffic.add(snapshot)
        self.snapshot = replace(snapshot, problems=problems_of(snapshot, [*self._paces.look(snapshot)]))
        for listener in self._listeners:
            listener(self.snapshot)

    def listen(self, listener: Callable[[Snapshot], None]) -> None:
        """Call ``listener`` with each snapshot that is shown from now on."""
        self._listeners.append(listener)

    def look(self, details: Detail = NO_DETAIL) -> Snapshot:
        return self.snapshot

    def refresh(self) -> Snapshot:
        return self.snapshot

    def watch(self, details: Detail = NO_DETAIL) -> None:
        """Nothing is gathered."""


def _at_once(ask: Callable[[], object]) -> Future[None]:
    """Ask before the page is made, which then shows the answers."""
    done: Future[None] = Future()
    ask()
    done.set_result(None)
    return done


class PageBrowser:
    """A browser without script, which keeps its cookie."""

    def __init__(self, collector: ScriptedCollector | Collector, tokens: Tokens | None = None, **settings: Any) -> None:
        """``settings`` are those of ``DashboardSettings``."""
        self.collector = cast(ScriptedCollector, collector)
        """What the pages are over, if a test scripts it."""
        self.app, self.streams = create_app(
            DashboardSettings(**settings), cast(Collector, collector), Visitors(tokens), AllowedHosts()
        )
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://localhost", headers={"accept": "text/html"}
        )

    @property
    def script(self) -> ScriptedContacts:
        """Questions to processes, and their answers. The collector must be scripted."""
        assert isinstance(self.collector, ScriptedCollector), self.collector
        return self.collector.contacts

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Ask for a page, without following where it leads."""
        return asyncio.run(self._client.get(path, headers=headers))

    def page(self, path: str, status: int = 200) -> str:
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def post(self, path: str, on: str, fields: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        """Send a form as the page ``on`` has it: with its form token. ``more`` is for httpx, such as ``files``."""
        found = _FORM_TOKEN.search(self.page(on))
        token = found[1] if found else NO_FORM_TOKEN
        return self.send(path, {"form_token": token} | dict(fields or {}), **more)

    def send(self, path: str, fields: Mapping[str, str], **more: Any) -> httpx.Response:
        return asyncio.run(self._client.post(path, data=dict(fields), **more))

    def sign_in(self, token: str) -> None:
        answer = self.post("/login", "/login", {"token": token})
        assert answer.status_code == 303, answer.text


def device_process(
    name: str = "npu",
    process: admin_pb2.GetProcessResponse | None = None,
    device: admin_pb2.GetDeviceResponse | None = None,
    **fields: Any,
) -> ObservedProcess:
    """Return a device that answers; ``fields`` are those of ``ObservedProcess``."""
    fields = {"directory": f"/run/nnhal/{name}"} | fields
    process = process or admin_pb2.GetProcessResponse(
        name=name, kind="device", pid=100, is_whole=True, log_level="info"
    )
    device = device or admin_pb2.GetDeviceResponse(workers=2)
    return ObservedProcess(name, "device", process=process, device=device, **fields)


def framework_process(process: admin_pb2.GetProcessResponse | None = None, **fields: Any) -> ObservedProcess:
    """Return a framework that answers; ``fields`` are those of ``ObservedProcess``."""
    fields = {"directory": "/run/nnhal/framework"} | fields
    process = process or admin_pb2.GetProcessResponse(name="framework", kind="framework", pid=101, is_whole=True)
    return ObservedProcess("framework", "framework", process=process, **fields)


def supervised(name: str, kind: str = "device", **fields: Any) -> supervisor_pb2.SupervisedProcess:
    given: dict[str, Any] = {"state": supervisor_pb2.SupervisedProcess.STATE_RUNNING, "pid": 100, "driver": "cpu_ref"}
    return supervisor_pb2.SupervisedProcess(name=name, kind=kind, directory=f"/run/nnhal/{name}", **given | fields)


def framework_state(**fields: Any) -> framework_admin_pb2.GetFrameworkResponse:
    fields = {"ready": True, "may_load": True} | fields
    return framework_admin_pb2.GetFrameworkResponse(**fields)
