"""Flow of bytes at a moment: from clients through models to devices, how long it takes there, and what is copied."""

from __future__ import annotations

import re
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nnhal.errors import NnhalError
from nnhal.quantiles import quantile
from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_dashboard.monitoring.plans import PlanSubject
from nnhal_pages.explanation.refusals import DeviceRefusals, refusals_of
from nnhal_pages.operating.counts import ModelCounted, device_since, models_since, runs_counted
from nnhal_pages.operating.snapshot import Snapshot

SECONDS = 30
"""Rates and times are those of so many seconds."""
_LEAST_ANSWERS = 9
"""Of fewer nobody says that a queue grows."""
_KEPT = 64
"""Plans of which it is known what a run moves: those of the busiest models."""
_REPLANNING = {"loaded", "replanned"}
"""Kinds of events of a model after which it may run by another plan on the same devices."""
_PORT = re.compile(r"^ipv[46]:(.*):\d+$")
BETWEEN, CLIENTS, WIRE = "between devices", "from and to clients", "over a network"
"""The kinds of copies."""


@dataclass(frozen=True, slots=True)
class PlanTraffic:
    """Bytes that one run of a model moves by its plan."""

    client_bytes: int | None
    """Its inputs and outputs; None if the size of one is not known."""
    device_bytes: Mapping[str, int]
    """What passes into and out of each device."""
    copied: Mapping[tuple[str, str], int]
    """What is copied, by device and kind."""
    refusals: tuple[DeviceRefusals, ...] = ()
    steps: tuple[str, ...] = ()
    """The device of each step."""


NO_PLAN = PlanTraffic(None, {}, {})
"""As long as a plan is not known."""


@dataclass(frozen=True, slots=True)
class ModelTraffic:
    """Work of a model in the last ``SECONDS`` seconds; rates are by second, times in nanoseconds of one request."""

    key: PlanSubject
    devices: tuple[str, ...]
    requests: float = 0.0
    failures: float = 0.0
    mean_ns: float | None = None
    median_ns: float | None = None
    slowest_ns: float | None = None
    """What 99 % of the requests do not exceed."""
    device_ns: Mapping[str, float] = field(default_factory=dict)
    """The time that a request was with each device; several devices share what was measured of them together."""
    copied: Mapping[str, float] = field(default_factory=dict)
    """Bytes by kind."""
    staged_bytes: float = 0.0
    """Those of them that hosts of devices copied."""
    plan: PlanTraffic = NO_PLAN
    queue_ns: float = 0.0
    """The time of a request in the queue."""
    queued: tuple[float, ...] = (0.0, 0.0, 0.0)
    """The mean length of the queue in each third of the time."""

    @property
    def is_idle(self) -> bool:
        """Return whether nobody asked for it."""
        return not self.requests and not self.failures


@dataclass(frozen=True, slots=True)
class DeviceTraffic:
    """Work of a device in the last ``SECONDS`` seconds; rates are by second."""

    executions: float = 0.0
    busy: float = 0.0
    """The share of its workers' time."""
    mean_ns: float | None = None
    """Of an execution."""
    wire_bytes: float = 0.0
    """Values that went over a network."""


@dataclass(frozen=True, slots=True)
class ServedTraffic:
    models: tuple[ModelTraffic, ...] = ()
    """The busiest first, then the idle ones by name."""
    devices: Mapping[str, DeviceTraffic] = field(default_factory=dict)
    clients: Mapping[tuple[str, PlanSubject], float] = field(default_factory=dict)
    """Requests a second, by client and model."""
    copied: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Bytes a second, by device and kind: those of plans by what was counted of their models."""

    def slowest(self) -> ModelTraffic | None:
        """The model of which 1 % of the requests take the longest; None if nothing was asked for."""
        known = [model for model in self.models if model.slowest_ns is not None]
        return max(known, key=lambda model: model.slowest_ns or 0.0, default=None)


class _Counted(NamedTuple):
    framework: framework_admin_pb2.GetFrameworkResponse
    devices: Mapping[str, admin_pb2.GetDeviceResponse]
    queued: Mapping[PlanSubject, int]
    """The requests in queues, of models that have some."""


class TrafficWatch:
    """Counts of the last seconds, and what plans move. Safe to use from several threads."""

    def __init__(self, framework: Callable[[], FrameworkAdmin], submit: Callable[[Callable[[], None]], Future[None]]):
        """``submit`` runs what asks the framework, elsewhere."""
        self._framework = framework
        self._submit = submit
        self._lock = threading.Lock()
        self._counted: deque[_Counted] = deque()
        self._plans: OrderedDict[PlanSubject, tuple[object, PlanTraffic]] = OrderedDict()
        self._changes = 0
        self._latest: tuple[int, int, ServedTraffic] | None = None
        """What flows by the last snapshot that was asked for: its number, and how many changes were known."""
        self._to_ask = threading.Lock()
        self._asking: Future[None] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Keep the counts of a moment."""
        if snapshot.framework is None:
            return
        devices = {process.name: process.device for process in snapshot.devices if process.device is not None}
        models = snapshot.framework.models
        queued = {PlanSubject(each.name, each.version): each.queued for each in models if each.queued}
        with self._lock:
            if self._counted and self._counted[-1].framework is snapshot.framework:
                return
            self._counted.append(_Counted(snapshot.framework, devices, queued))
            self._changes += 1
            begin_ns = snapshot.framework.at_ns - SECONDS * 10**9
            while len(self._counted) > 2 and self._counted[1].framework.at_ns <= begin_ns:
                self._counted.popleft()

    def at(self, snapshot: Snapshot) -> ServedTraffic:
        """Say what flows by a snapshot. Several parts of a page ask for the same."""
        with self._lock:
            changes = self._changes
            if self._latest is not None and self._latest[:2] == (snapshot.number, changes):
                return self._latest[2]
            counted = list(self._counted)
            plans = {key: plan for key, (_, plan) in self._plans.items()}
        if not counted or snapshot.framework is None:
            return ServedTraffic()
        traffic = _traffic(counted, snapshot, plans)
        with self._lock:
            self._latest = snapshot.number, changes, traffic
        return traffic

    def learn(self, snapshot: Snapshot, seconds: float = 0.0) -> None:
        """Have plans asked for that are not known or not the same any more, and wait for that so long.

        No file is imported for the answers: what runs as it is has refused nothing, and is one operation.
        """
        wanted = [(model.key, _plan_state(model, snapshot)) for model in self.at(snapshot).models[:_KEPT]]
        with self._lock:
            missing = [(key, state) for key, state in wanted if self._plans.get(key, (None,))[0] != state]
        with self._to_ask:
            if missing and (self._asking is None or self._asking.done()):
                self._asking = self._submit(lambda: self._ask(missing))
            asking = self._asking
        if asking is not None and seconds:
            wait([asking], seconds)

    def _ask(self, wanted: Sequence[tuple[PlanSubject, object]]) -> None:
        for key, state in wanted:
            try:
                answer = self._framework().explain(key.target, as_it_runs=True)
                plan = plan_traffic(explanation_from_wire(answer.explanation))
            except NnhalError:  # it was unloaded meanwhile, or the framework is gone
                plan = NO_PLAN
            with self._lock:
                self._plans[key] = state, plan
                self._changes += 1
                self._plans.move_to_end(key)
                while len(self._plans) > _KEPT:
                    self._plans.popitem(last=False)


def plan_traffic(explanation: Explanation) -> PlanTraffic:
    """Sum up what a run moves."""
    of_client, by_device, copied = 0, Counter[str](), Counter[tuple[str, str]]()
    is_known = True
    for edge in explanation.edges:
        ends = {edge.source: edge.source_step, edge.destination: edge.destination_step}
        devices = [name for name, step in ends.items() if step >= 0]
        by_device.update(dict.fromkeys(devices, edge.bytes))
        if min(ends.values()) < 0:
            of_client += edge.bytes
            is_known &= edge.bytes > 0
        if edge.copied_bytes and devices:
            copied[devices[-1], BETWEEN if len(devices) > 1 else CLIENTS] += edge.copied_bytes
    steps = tuple(step.device for step in explanation.steps)
    return PlanTraffic(of_client if is_known else None, by_device, copied, refusals_of(explanation), steps)


def _plan_state(model: ModelTraffic, snapshot: Snapshot) -> object:
    """Return what differs if a model runs by another plan than before."""
    events = (event for event in snapshot.events if event.subject == model.key.model and event.kind in _REPLANNING)
    return model.devices, max((event.at_ns for event in events), default=0)


def client_name(client: str) -> str:
    """Return who asked for a run: of a connection only the host, since each has a port of its own."""
    found = _PORT.match(client)
    return found[1].strip("[]") if found else client or "this host"


def _traffic(
    counted: Sequence[_Counted], snapshot: Snapshot, plans: Mapping[PlanSubject, PlanTraffic]
) -> ServedTraffic:
    first, last = counted[0], counted[-1]
    earliest = {name: device for each in reversed(counted) for name, device in each.devices.items()}
    devices = {name: _device(earliest[name], now) for name, now in last.devices.items()}
    since = snapshot.at_ns - SECONDS * 10**9
    runs: dict[tuple[str, str], list[framework_admin_pb2.FinishedRun]] = defaultdict(list)
    for run in snapshot.finished:
        if run.ended_ns >= since:
            runs[run.model, run.version].append(run)
    queues = _queues([each.queued for each in counted])
    done = models_since(first.framework, last.framework)
    lasted = max(0.0, (last.framework.at_ns - first.framework.at_ns) / 1e9)
    models = []
    for served in last.framework.models:
        if served.state != "READY":
            continue
        key = PlanSubject(served.name, served.version)
        model = _model(key, served.devices, done[key.model, key.version], devices, plans)
        models.append(replace(model, queued=queues[key]) if key in queues else model)
    for loaded in last.framework.session_models:
        key, own = PlanSubject(loaded.name, "", loaded.session), runs[loaded.name, ""]
        models.append(_model(key, loaded.devices, ModelCounted(runs_counted(own), lasted), devices, plans))
    models.sort(key=lambda model: (-model.requests, -model.failures, model.key))
    clients: dict[tuple[str, PlanSubject], float] = {}
    for model in models:
        shares = Counter(client_name(run.client) for run in runs[model.key.model, model.key.version])
        for client, count in shares.items():
            clients[client, model.key] = (model.requests + model.failures) * count / shares.total()
    return ServedTraffic(tuple(models), devices, clients, _copied(models, devices))


def _model(
    key: PlanSubject,
    on: Sequence[str],
    counted: ModelCounted,
    devices: Mapping[str, DeviceTraffic],
    plans: Mapping[PlanSubject, PlanTraffic],
) -> ModelTraffic:
    counts, seconds = counted.counts, counted.seconds or float("inf")
    weights = {name: (devices[name].mean_ns or 0.0) if name in devices else 0.0 for name in on}
    whole = sum(weights.values())
    run_ns = counts.run_ns / counts.runs if counts.runs else 0.0
    return ModelTraffic(
        key,
        tuple(on),
        counts.requests / seconds,
        counts.failures / seconds,
        counts.duration_ns / counts.requests if counts.requests else None,
        quantile(counts.durations, 0.5),
        quantile(counts.durations, 0.99),
        {name: run_ns * (weight / whole if whole else 1 / len(on)) for name, weight in weights.items() if run_ns},
        {BETWEEN: counts.copied.between / seconds, CLIENTS: counts.copied.clients / seconds},
        counts.copied.staged / seconds,
        plans.get(key, NO_PLAN),
        counts.queue_ns / counts.requests if counts.requests else 0.0,
    )


def _queues(lengths: Sequence[Mapping[PlanSubject, int]]) -> dict[PlanSubject, tuple[float, ...]]:
    """Return the mean lengths of queues in each third of some answers; of those that are empty now none."""
    third = len(lengths) // 3
    parts = (lengths[:third], lengths[third:-third], lengths[-third:]) if len(lengths) >= _LEAST_ANSWERS else ()
    keys = lengths[-1] if parts else ()
    return {key: tuple(sum(each.get(key, 0) for each in part) / len(part) for part in parts) for key in keys}


def _device(before: admin_pb2.GetDeviceResponse, now: admin_pb2.GetDeviceResponse) -> DeviceTraffic:
    counts, seconds = device_since(before, now)
    if not seconds:
        return DeviceTraffic()
    ended = counts.executions_ended
    return DeviceTraffic(
        ended / seconds,
        min(1.0, counts.busy_ns / 1e9 / seconds / max(now.workers, 1)),
        counts.busy_ns / ended if ended else None,
        (counts.wire_up_bytes + counts.wire_down_bytes) / seconds,
    )


def _copied(models: Sequence[ModelTraffic], devices: Mapping[str, DeviceTraffic]) -> dict[tuple[str, str], float]:
    """Return what was counted of models, shared out by their plans."""
    copied: dict[tuple[str, str], float] = defaultdict(float)
    for model in models:
        for kind, amount in model.copied.items():
            shares = {name: share for (name, of), share in model.plan.copied.items() if of == kind}
            shares = shares or dict.fromkeys(model.devices[:1], 1)
            for name, share in shares.items():
                copied[name, kind] += amount * share / sum(shares.values())
    for name, device in devices.items():
        copied[name, WIRE] += device.wire_bytes
    return {end: amount for end, amount in copied.items() if amount > 0}
