"""Models that are slower than they were, or than they are to be, and queues that grow."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import numpy as np

from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.problems import Found
from nnhal_dashboard.monitoring.traffic import SECONDS, ModelTraffic, TrafficWatch
from nnhal_pages.operating.snapshot import Complaint, Severity, Snapshot
from nnhal_pages.units import duration, lasting

_HOUR = 3600.0
_STRETCH_SECONDS = 60
"""What is usual is the median of the means of stretches of this time."""
_LEAST_STRETCHES = 5
_KEPT_SECONDS = 60.0
"""What is usual is looked up again after this time."""
_LEAST_REQUESTS = 5
_SLOW_TIMES, _SLOW_NS = 2.0, 1e6
"""A model is slow if its requests take so many times as long as usual, and this much longer."""
_OF_EXECUTION = "device.busy", "device.executions"
"""The series whose quotient is the time of an execution, but for the number of workers."""
_LEAST_QUEUE = 8
"""A shorter queue is a batch."""


class PaceWatch:
    """Compares models with their own last hour. For one thread only."""

    def __init__(self, history: History, traffic: TrafficWatch) -> None:
        self._history = history
        self._traffic = traffic
        self._usual: dict[tuple[str, str], tuple[float, float | None]] = {}
        """By kind and name of a series: when it was looked up, and what is usual."""

    def look(self, snapshot: Snapshot) -> Iterator[Found]:
        """Yield the problems of a snapshot, which history and traffic have."""
        framework = snapshot.framework
        goals = {(each.name, each.version): each.goal_ns for each in framework.models} if framework is not None else {}
        for model in self._traffic.at(snapshot).models:
            if model.is_idle or model.key.session:
                continue
            name, page = f"{model.key.model} {model.key.version}", f"/models/{quote(model.key.model, safe='')}"
            goal = goals.get((model.key.model, model.key.version), 0)
            if goal and model.slowest_ns is not None and model.slowest_ns > goal:
                took = f"99 % of its requests are answered within {_written(model.slowest_ns)}"
                text = f"Model {name} misses its goal: {took}, {_written(goal)} are wanted"
                yield Complaint(Severity.WARNING, text, page), ()
            first, middle, last = model.queued
            if last >= _LEAST_QUEUE and last > middle > first:
                text = f"The queue of model {name} grows: from {first:.0f} to {last:.0f} requests in {SECONDS} s"
                yield Complaint(Severity.WARNING, text, page), model.devices
            slow = self._slow(model, snapshot)
            if slow:
                yield Complaint(Severity.WARNING, f"Model {name} is slow: {slow[0]}", page), slow[1:]

    def _slow(self, model: ModelTraffic, snapshot: Snapshot) -> tuple[str, ...]:
        """Say how much slower a model is than usual, and since which device; nothing if it is not.

        The device follows if there is one.
        """
        name, mean = model.key.model, model.mean_ns
        usual = self._usually("model.latency", name)
        is_known = mean is not None and usual is not None and model.requests * SECONDS >= _LEAST_REQUESTS
        if not is_known or mean is None or usual is None or mean < max(_SLOW_TIMES * usual, usual + _SLOW_NS):
            return ()
        self._traffic.learn(snapshot)
        text = f"a request takes {_written(mean)} and took {_written(usual)} in the last hour"
        times = {device: self._times(device) for device in model.devices}
        device = max(times, key=lambda each: times[each], default="")
        if not device or times[device] < _SLOW_TIMES:
            waits = model.queue_ns / mean
            return (f"{text}; {waits:.0%} of it in the queue",) if waits > 0.5 else (text,)
        steps = [str(number) for number, each in enumerate(model.plan.steps) if each == device]
        where = f"step {' and '.join(steps)} on {device}" if steps else f"its part on {device}"
        return f"{text}; {where}, where an execution takes {times[device]:.1f} times as long", device

    def _times(self, device: str) -> float:
        """Return how many times as long as usual an execution of a device takes; 1 if that is not known."""
        busy, executions = (self._history.recent(kind, device, SECONDS) for kind in _OF_EXECUTION)
        usually_busy, usual_executions = (self._usually(kind, device) for kind in _OF_EXECUTION)
        if not (busy and executions and usually_busy and usual_executions):
            return 1.0
        return (busy / executions) / (usually_busy / usual_executions)

    def _usually(self, kind: str, name: str) -> float | None:
        now = self._history.end
        at, found = self._usual.get((kind, name), (-np.inf, None))
        if not 0 <= now - at < _KEPT_SECONDS:
            track = self._history.track(kind, name, now - _STRETCH_SECONDS, _HOUR, _STRETCH_SECONDS)
            known = track.mean[track.mean > 0]
            found = float(np.median(known)) if len(known) >= _LEAST_STRETCHES else None
            self._usual[kind, name] = now, found
        return found


def _written(nanoseconds: float) -> str:
    return lasting(nanoseconds) if nanoseconds >= 1e9 else duration(nanoseconds)
