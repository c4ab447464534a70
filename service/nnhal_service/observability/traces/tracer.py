"""Tracing requests: one in so many of a model, and those that clients trace themselves.

Each process that serves requests has a sampler of its own; the tracer of the framework counts and writes the traces.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from nnhal_service.observability.request_scope import TraceParent, current_parent
from nnhal_service.observability.traces.files import TraceFiles
from nnhal_service.observability.traces.request_trace import (
    RequestTrace,
    SpanExporter,
    request_trace,
    tensor_traces,
)
from nnhal_service.observability.traces.settings import TENSORS, Settings, TraceConfig, TraceTable
from nnhal_service.serving import Finished, InferenceRequest, OfRequests


class Tracer:
    """Traces of served models, and their settings. Safe to use from several threads.

    The runs of traced requests are measured. Without files and an exporter, nothing is traced. Requests that a client
    has sampled by ``traceparent`` are always exported, whatever the settings, but are not written to files.
    """

    def __init__(
        self,
        is_known: Callable[[str], bool],
        directory: Path | None = None,
        start: Settings | None = None,
        exporter: SpanExporter | None = None,
        changed: Callable[[TraceRules], None] = lambda _: None,
    ) -> None:
        """``is_known`` says whether a model exists. Files are written only to ``directory``. ``start`` are the settings
        that differ from the defaults. The tracer closes the exporter. ``changed`` is called with ``rules`` after each
        change.

        Raises ValueError if the directory does not exist, ServingError if a setting is wrong.
        """
        self._lock = threading.Lock()
        self._table = TraceTable(is_known, directory is not None, start or {})
        self._files = TraceFiles(directory) if directory is not None else None
        self._exporter = exporter
        self._changed = changed
        self._numbers = itertools.count(1)
        self._all = _Scope(TraceConfig.of(self._table.of("")))
        self._models: dict[str, _Scope] = {}
        self.sampler = TraceSampler(self.rules, self.reserve, self.take)
        """The sampler of this process."""

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """Change settings of a model, or of all if the name is empty, and return all its settings after the change.

        A change without values resets a setting to its value at the start, or for a model to the value of all.
        ``trace_count`` is what is left of it. What has been traced so far is in files when a change returns. Raises
        ServingError: NOT_FOUND, INVALID_ARGUMENT or UNSUPPORTED.
        """
        with self._lock:
            self._table.change(model_name, changes)
            if changes:
                self._apply("trace_count" in changes, model_name)
            scope = self._models.get(model_name, self._all)
            settings = {**self._table.of(model_name), "trace_count": (str(scope.left),)}
        if changes:
            self.sampler.adopt(self.rules)
            self._changed(self.rules)
            if self._files is not None:
                self._files.flush()
        return settings

    @property
    def may_trace(self) -> bool:
        """Return whether requests can be traced at all."""
        return self._files is not None or self._exporter is not None

    @property
    def rules(self) -> TraceRules:
        """Return what is traced, for the samplers."""
        models = {name: scope.config for name, scope in self._models.items()}
        return TraceRules(self._files is not None, self._exporter is not None, self._all.config, models)

    def reserve(self, model_name: str) -> TraceReservation | None:
        """Count a request that is to be traced; None if no more are to be."""
        scope = self._models.get(model_name, self._all)
        return TraceReservation(scope) if scope.takes_one() else None

    def take(self, trace: RequestTrace, reservation: TraceReservation | None, is_exported: bool) -> None:
        """Number a trace and export it; it goes to a file if it has a reservation."""
        self._deliver(replace(trace, number=next(self._numbers)), reservation and reservation.scope, is_exported)

    def flush(self) -> None:
        """Wait until everything that has been traced is in files."""
        if self._files is not None:
            self._files.flush()

    def close(self) -> None:
        """Write and export what is kept. No request may follow."""
        if self._files is not None:
            self._files.close()
        if self._exporter is not None:
            self._exporter.close()

    def _deliver(self, trace: RequestTrace, scope: _Scope | None, is_exported: bool) -> None:
        """Write a trace to the file of its scope, and export it."""
        if self._files is not None and scope is not None and scope.config.file:
            config = scope.config
            self._files.add(config.file, config.mode, config.log_frequency, trace)
            if scope.ended():
                self._files.finish(config.file, config.mode)
        if self._exporter is not None and is_exported:
            self._exporter.export(trace)

    def _apply(self, is_count_reset: bool, changed: str) -> None:
        """Put the settings into effect. A scope that they do not change keeps counting."""
        if self._all.differs(config := TraceConfig.of(self._table.of(""))) or (is_count_reset and not changed):
            self._all = _Scope(config)
        models: dict[str, _Scope] = {}
        for name in self._table.models:
            config, known = TraceConfig.of(self._table.of(name)), self._models.get(name)
            is_kept = known is not None and not known.differs(config) and not (is_count_reset and name == changed)
            models[name] = known if known is not None and is_kept else _Scope(config)
        self._models = models


class TraceRules(NamedTuple):
    has_files: bool
    has_exporter: bool
    all: TraceConfig
    models: Mapping[str, TraceConfig]
    """The rules of models that have settings of their own."""


class TraceSampler(OfRequests):
    """The Sampler of one process: it traces one in so many of its requests, as far as the tracer reserves places for
    them, which may be that of another process. Used in the event loop only, but for ``adopt``.
    """

    def __init__(
        self,
        rules: TraceRules,
        reserve: Callable[[str], TraceReservation | None],
        take: Callable[[RequestTrace, TraceReservation | None, bool], object],
    ) -> None:
        """``reserve`` and ``take`` are those of the Tracer."""
        self._reserve = reserve
        self._take = take
        self._models: dict[str, _Rate] = {}
        self.adopt(rules)

    def adopt(self, rules: TraceRules) -> None:
        """Trace by other rules from now on. A rate that they do not change keeps counting."""
        known = self._models
        self._models = {
            name: _Rate(config, known[name].seen if name in known and known[name].config == config else 0)
            for name, config in {**rules.models, "": rules.all}.items()
        }
        self._has_exporter = rules.has_exporter
        self._is_off = not (rules.has_files or rules.has_exporter)

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        if self._is_off:
            return False
        _current.set(None)
        rate = self._models.get(model_name) or self._models[""]
        reservation = None
        if rate.chooses():
            reservation = self._reserve(model_name)
            rate.is_over = reservation is None
        parent = current_parent()
        is_sampled = reservation is not None or (parent is not None and parent.is_sampled)
        is_exported = self._has_exporter and is_sampled
        if reservation is None and not is_exported:
            return False
        with_tensors = reservation is not None and TENSORS in rate.config.levels
        _current.set(_Sample(reservation, is_exported, with_tensors, parent))
        return True

    def finished(self, finished: Finished) -> None:
        sample = _current.get()
        if sample is None:
            return
        _current.set(None)
        trace = request_trace(0, finished, sample.parent, tensor_traces(finished) if sample.with_tensors else ())
        self._take(trace, sample.reservation, sample.is_exported)


class TraceReservation(NamedTuple):
    """A place for one trace in the count of its settings."""

    scope: _Scope

    def close(self) -> None:
        """Wait for the trace no more; its place in the count is used up."""
        self.scope.ended()


class _Sample(NamedTuple):
    """How a request is traced: to a file if it has a reservation, for the exporter, and as part of a client's span."""

    reservation: TraceReservation | None
    is_exported: bool
    with_tensors: bool
    parent: TraceParent | None


_current: ContextVar[_Sample | None] = ContextVar("nnhal_trace_sample", default=None)
"""How the request is traced that is served in this context."""


class _Rate:
    """One in so many requests, by one set of settings."""

    __slots__ = ("config", "is_over", "seen")

    def __init__(self, config: TraceConfig, seen: int) -> None:
        self.config = config
        self.seen = seen
        self.is_over = False
        """True if as many were traced as are to be."""

    def chooses(self) -> bool:
        """Say whether the next request is to be traced."""
        if not self.config.levels or self.is_over:
            return False
        self.seen += 1
        return self.seen % self.config.rate == 0


class _Scope:
    """The counters of one set of settings: of all models or of one. Safe to use from several threads."""

    def __init__(self, config: TraceConfig) -> None:
        self.config = config
        self.left = config.count
        self._running = 0
        self._lock = threading.Lock()

    def differs(self, config: TraceConfig) -> bool:
        return self.config != config

    def takes_one(self) -> bool:
        """Say whether another request is to be traced, which counts then."""
        with self._lock:
            if not (self.config.levels and self.left):
                return False
            if self.left > 0:
                self.left -= 1
            self._running += 1
            return True

    def ended(self) -> bool:
        """Note that a traced request has ended; say whether it was the last of the count."""
        with self._lock:
            self._running -= 1
            return not self.left and not self._running
