"""Traces of requests that front workers serve: chosen there, counted and written by the framework's process."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from nnhal_service.front_workers.peer import Peer
from nnhal_service.observability.request_scope import TraceParent, current_parent
from nnhal_service.observability.traces import Tracer
from nnhal_service.observability.traces.request_trace import RequestTrace, request_trace, tensor_traces
from nnhal_service.observability.traces.settings import TENSORS, TraceConfig
from nnhal_service.observability.traces.tracer import TraceReservation, TraceRules
from nnhal_service.serving import Executed, Finished, InferenceRequest, ServingError


class FrameworkTraces(Protocol):
    """Services of the framework's process for the traces of one front worker."""

    def reserve(self, model_name: str) -> int:
        """Count a request that is to be traced; 0 if no more are to be."""

    def take(self, trace: RequestTrace, reservation: int, is_exported: bool) -> None:
        """Write a trace, if it has a reservation, and export it."""


class WorkerTraces:
    """The FrameworkTraces of one front worker. Safe to use from several threads."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._reserved: dict[int, TraceReservation] = {}

    def reserve(self, model_name: str) -> int:
        reservation = self._tracer.reserve(model_name)
        if reservation is None:
            return 0
        with self._lock:
            number = next(self._numbers)
            self._reserved[number] = reservation
        return number

    def take(self, trace: RequestTrace, reservation: int, is_exported: bool) -> None:
        with self._lock:
            reserved = self._reserved.pop(reservation, None)
        self._tracer.take(trace, reserved, is_exported)

    def close(self) -> None:
        """Wait for no more traces of the worker, which is gone."""
        with self._lock:
            reserved, self._reserved = self._reserved, {}
        for reservation in reserved.values():
            reservation.cancel()


class _Sample(NamedTuple):
    reservation: int
    is_exported: bool
    with_tensors: bool
    parent: TraceParent | None


_current: ContextVar[_Sample | None] = ContextVar("nnhal_front_trace_sample", default=None)
"""How the request is traced that is served in this context."""


class RemoteTracer:
    """The Sampler of a front worker. One in so many requests of this worker is traced; the framework counts how many
    are traced in all.
    """

    def __init__(self, framework: Peer, rules: TraceRules) -> None:
        self._framework = framework
        self.adopt(rules)

    def adopt(self, rules: TraceRules) -> None:
        """Trace by other rules from now on."""
        self._rules = rules
        self._chosen: dict[str, _Choice] = {}

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        _current.set(None)
        rules = self._rules
        if not (rules.has_files or rules.has_exporter):
            return False
        config = rules.models.get(model_name, rules.all)
        reservation = self._reserve(model_name, config) if config.levels else 0
        parent = current_parent()
        is_exported = rules.has_exporter and (reservation > 0 or (parent is not None and parent.is_sampled))
        if not (reservation or is_exported):
            return False
        _current.set(_Sample(reservation, is_exported, reservation > 0 and TENSORS in config.levels, parent))
        return True

    def executed(self, executed: Executed) -> None:
        """Do nothing: a request is traced when it has finished."""

    def finished(self, finished: Finished) -> None:
        sample = _current.get()
        if sample is None:
            return
        _current.set(None)
        trace = request_trace(0, finished, sample.parent, tensor_traces(finished) if sample.with_tensors else ())
        with suppress(ServingError):  # the framework is gone
            self._framework.begin(FrameworkTraces.take, trace, sample.reservation, sample.is_exported)

    def _reserve(self, model_name: str, config: TraceConfig) -> int:
        name = model_name if model_name in self._rules.models else ""
        choice = self._chosen.get(name)
        if choice is None:
            choice = self._chosen[name] = _Choice()
        if choice.is_over:
            return 0
        choice.seen += 1
        if choice.seen % config.rate:
            return 0
        try:
            reservation = self._framework.ask(FrameworkTraces.reserve, model_name)
        except ServingError:  # the framework is gone
            return 0
        choice.is_over = not reservation
        return reservation


class _Choice:
    """The requests of one set of settings. Only the loop uses it."""

    def __init__(self) -> None:
        self.seen = 0
        self.is_over = False
        """True if as many were traced as are to be."""
