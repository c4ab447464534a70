"""Tracing requests: one in so many of a model, and those that clients trace themselves."""

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


class Tracer(OfRequests):
    """An observer of served models, and their trace settings. Safe to use from several threads.

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
            self._changed(self.rules)
            if self._files is not None:
                self._files.flush()
        return settings

    @property
    def rules(self) -> TraceRules:
        """Return what is traced, for another process that serves the same models."""
        models = {name: scope.config for name, scope in self._models.items()}
        return TraceRules(self._files is not None, self._exporter is not None, self._all.config, models)

    def reserve(self, model_name: str) -> TraceReservation | None:
        """Count a request that another process has chosen to trace; None if no more are to be traced."""
        scope = self._models.get(model_name, self._all)
        return TraceReservation(scope) if scope.takes_one() else None

    def take(self, trace: RequestTrace, reservation: TraceReservation | None, is_exported: bool) -> None:
        """Take a traced request of another process; it gets a number of this one. It goes to a file if it has a
        reservation.
        """
        self._deliver(replace(trace, number=next(self._numbers)), reservation and reservation.scope, is_exported)

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        if self._files is None and self._exporter is None:
            return False
        _current.set(None)
        scope = self._models.get(model_name, self._all)
        is_sampled = scope.samples()
        parent = current_parent()
        is_exported = self._exporter is not None and (is_sampled or (parent is not None and parent.is_sampled))
        if is_sampled or is_exported:
            _current.set(_Sample(scope if is_sampled else None, is_exported, parent))
            return True
        return False

    def finished(self, finished: Finished) -> None:
        sample = _current.get()
        if sample is None:
            return
        _current.set(None)
        config = sample.scope.config if sample.scope is not None else None
        tensors = tensor_traces(finished) if config is not None and TENSORS in config.levels else ()
        trace = request_trace(next(self._numbers), finished, sample.parent, tensors)
        self._deliver(trace, sample.scope, sample.is_exported)

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


class TraceReservation(NamedTuple):
    """A place for one trace in the count of its settings."""

    scope: _Scope

    def cancel(self) -> None:
        """Give up waiting for the trace; its place in the count is used up."""
        self.scope.ended()


class _Sample(NamedTuple):
    """Rule by which a request is traced: by ``scope`` for a file, for the exporter, and as part of a client's span."""

    scope: _Scope | None
    is_exported: bool
    parent: TraceParent | None


_current: ContextVar[_Sample | None] = ContextVar("nnhal_trace_sample", default=None)
"""How the request is traced that is served in this context."""


class _Scope:
    """The counters of one set of settings: of all models or of one. Safe to use from several threads."""

    def __init__(self, config: TraceConfig) -> None:
        self.config = config
        self.left = config.count
        self._seen = 0
        self._running = 0
        self._lock = threading.Lock()

    def differs(self, config: TraceConfig) -> bool:
        return self.config != config

    def samples(self) -> bool:
        """Say whether the next request is to be traced: one in so many, while the count lasts."""
        if not self.config.levels or not self.left:
            return False
        with self._lock:
            self._seen += 1
            if self._seen % self.config.rate:
                return False
            return self._take_one()

    def takes_one(self) -> bool:
        """Say whether a request that another process has chosen is to be traced."""
        with self._lock:
            return bool(self.config.levels) and self._take_one()

    def _take_one(self) -> bool:
        if not self.left:
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
