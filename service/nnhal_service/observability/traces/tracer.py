"""Tracing requests: one in so many of a model, and those that clients trace themselves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nnhal_service.observability.request_scope import TraceParent, current_parent
from nnhal_service.observability.traces.files import TraceFiles
from nnhal_service.observability.traces.request_trace import SpanExporter, request_trace, tensor_traces
from nnhal_service.observability.traces.settings import TENSORS, Settings, TraceConfig, TraceTable
from nnhal_service.serving import Executed, Finished, InferenceRequest


class Tracer:
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
    ) -> None:
        """``is_known`` says whether a model exists. Files are written only to ``directory``. ``start`` are the settings
        that differ from the defaults. The tracer closes the exporter.

        Raises ValueError if the directory does not exist, ServingError if a setting is wrong.
        """
        self._lock = threading.Lock()
        self._table = TraceTable(is_known, directory is not None, start or {})
        self._files = TraceFiles(directory) if directory is not None else None
        self._exporter = exporter
        self._numbers = itertools.count(1)
        self._all = _Scope(TraceConfig.of(self._table.of("")))
        self._models: dict[str, _Scope] = {}
        self._current = _Current()

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
        if changes and self._files is not None:
            self._files.flush()
        return settings

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        self._current.sample = None
        scope = self._models.get(model_name, self._all)
        is_sampled = (self._files is not None or self._exporter is not None) and scope.samples()
        parent = current_parent()
        is_exported = self._exporter is not None and (is_sampled or (parent is not None and parent.is_sampled))
        if is_sampled or is_exported:
            self._current.sample = _Sample(scope if is_sampled else None, is_exported, parent)
            return True
        return False

    def executed(self, executed: Executed) -> None:
        """Do nothing: a request is traced when it has finished."""

    def finished(self, finished: Finished) -> None:
        sample, self._current.sample = self._current.sample, None
        if sample is None:
            return
        config = sample.scope.config if sample.scope is not None else None
        tensors = tensor_traces(finished) if config is not None and TENSORS in config.levels else ()
        trace = request_trace(next(self._numbers), finished, sample.parent, tensors)
        if self._files is not None and config is not None and config.file:
            self._files.add(config.file, config.mode, config.log_frequency, trace)
            if sample.scope is not None and sample.scope.ended():
                self._files.finish(config.file, config.mode)
        if self._exporter is not None and sample.is_exported:
            self._exporter.export(trace)

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


class _Sample(NamedTuple):
    """How a request is traced: by ``scope`` for a file, for the exporter, and as part of a client's span."""

    scope: _Scope | None
    is_exported: bool
    parent: TraceParent | None


class _Current(threading.local):
    """The request that a thread works on."""

    sample: _Sample | None = None


class _Scope:
    """The counters of one set of settings: of all models or of one. Safe to use from several threads."""

    def __init__(self, config: TraceConfig) -> None:
        self.config = config
        self.left = config.count
        self._seen = 0
        self._running = 0
        self._lock = threading.Lock()

    def differs(self, config: TraceConfig) -> bool:
        """Say whether its settings differ from these."""
        return self.config != config

    def samples(self) -> bool:
        """Say whether the next request is to be traced: one in so many, while the count lasts."""
        if not self.config.levels or not self.left:
            return False
        with self._lock:
            self._seen += 1
            if self._seen % self.config.rate or not self.left:
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
