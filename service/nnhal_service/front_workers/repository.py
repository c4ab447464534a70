"""The repository as a front worker sees it: its models are the framework's, bound to the worker's own memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from nnhal.inference.grpc_service_pb2 import ModelStatistics
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal.threads import BriefThread
from nnhal_service.front_workers.interfaces import FrameworkModels, OpenedVersion, WorkerCounts
from nnhal_service.front_workers.peer import Peer
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.repository import Lease, Opened
from nnhal_service.repository.ready_versions import ReadyVersion
from nnhal_service.serving import ServingError
from nnhal_service.serving.errors import draining
from nnhal_service.serving.history.live_requests import LiveRequests
from nnhal_service.serving.models.request_server import RequestServer
from nnhal_service.v2.backend import IndexEntry, ModelDescription, ModelRepository, RepositoryParameter

Serve = Callable[[OpenedVersion], RequestServer]


class RemoteRepository:
    """The ModelRepository of a front worker. Safe to use from several threads.

    A version that was asked for once is kept, with its instances, until the framework says that it is no longer served:
    later requests for it cross no other process than the device's.
    """

    def __init__(self, framework: Peer, serve: Serve, metrics: RequestMetrics, drain_seconds: float) -> None:
        """``serve`` makes the worker's own server of a version. ``metrics`` observe all of them."""
        self._framework = framework
        self._serve = serve
        self._metrics = metrics
        self._drain_seconds = drain_seconds
        self._lock = threading.Lock()
        self._kept: dict[int, _KeptVersion] = {}
        self._found: dict[tuple[str, str], _KeptVersion] = {}
        self._changes = 0
        self._drains = False
        self._reporting = threading.Lock()

    def model(self, name: str, version: str) -> Lease[RequestServer]:
        if self._drains:
            raise draining()
        with self._lock:
            kept = self._found.get((name, version))
            if kept is not None:
                return kept.ready.lease()
            changes = self._changes
        while True:
            opened = self._framework.ask(FrameworkModels.open, name, version)
            with self._lock:
                if changes == self._changes:
                    kept = self._keep(opened)
                    if version in ("", str(opened.version)):  # other spellings of a number are not worth the memory
                        self._found[name, version] = kept
                    lease = kept.ready.lease()
                    break
                changes = self._changes  # what was opened may be unloaded by now
            self._framework.ask(FrameworkModels.release, opened.lease)
        if kept.lease != opened.lease:
            self._framework.ask(FrameworkModels.release, opened.lease)
        return lease

    def drain(self, drain: bool) -> None:
        """Hand out no models, or hand them out again."""
        self._drains = drain
        with self._lock:
            kept = list(self._kept.values())
        for version in kept:
            version.server.drain(drain)

    def live(self) -> list[LiveRequests]:
        """The requests that wait and run, by version of a model."""
        with self._lock:
            return [kept.server.live for kept in self._kept.values()]

    def changed(self, name: str, serials: Collection[int]) -> None:
        """Keep no version of a model but those with these serials; the others end when their requests have ended."""
        with self._lock:
            self._changes += 1
            for key in [key for key in self._found if key[0] == name]:
                del self._found[key]
            gone = [kept for kept in self._kept.values() if kept.name == name and kept.serial not in serials]
            for kept in gone:
                del self._kept[kept.serial]
        for kept in gone:
            if not BriefThread(partial(self._retire, kept), "front-retire").started():
                self._retire(kept)

    def close(self) -> None:
        """Finish the requests in flight, and keep nothing."""
        with self._lock:
            self._changes += 1
            kept, self._kept, self._found = list(self._kept.values()), {}, {}
        for version in kept:
            self._retire(version)

    @property
    def has_news(self) -> bool:
        """True if there is something to report: something was counted, or a request waits or runs, or has until now."""
        with self._lock:
            return any(
                kept.server.has_counted or kept.server.live.oldest_ns or kept.reported_oldest_ns
                for kept in self._kept.values()
            )

    def report(self) -> None:
        """Report what was counted since the last time. Raises UNAVAILABLE if the framework is gone."""
        with self._lock:
            kept = list(self._kept.values())
        self._report(kept)

    def ready(self) -> bool:
        return self._framework.ask(ModelRepository.ready)

    def is_ready(self, name: str, version: str) -> bool:
        return self._framework.ask(ModelRepository.is_ready, name, version)

    def description(self, name: str, version: str) -> ModelDescription:
        return self._framework.ask(ModelRepository.description, name, version)

    def config(self, name: str, version: str) -> ModelConfig:
        return self._framework.ask(ModelRepository.config, name, version)

    def statistics(self, name: str, version: str) -> Sequence[ModelStatistics]:
        return self._framework.ask(ModelRepository.statistics, name, version)

    def index(self, ready_only: bool) -> Sequence[IndexEntry]:
        return self._framework.ask(ModelRepository.index, ready_only)

    def known(self, name: str) -> Sequence[IndexEntry]:
        return self._framework.ask(ModelRepository.known, name)

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        self._framework.ask(ModelRepository.load, name, parameters)

    def unload(self, name: str, unload_dependents: bool) -> None:
        self._framework.ask(ModelRepository.unload, name, unload_dependents)

    def _keep(self, opened: OpenedVersion) -> _KeptVersion:
        """The kept version with a serial, which is new if there is none."""
        kept = self._kept.get(opened.serial)
        if kept is None:
            kept = self._kept[opened.serial] = _KeptVersion(opened, self._serve(opened))
        return kept

    def _retire(self, kept: _KeptVersion) -> None:
        """Release a version when its requests have ended."""
        try:
            kept.ready.close(self._drain_seconds)
            self._report([kept])
            self._framework.ask(FrameworkModels.release, kept.lease)
        except ServingError:  # the framework is gone, and this process ends
            return

    def _report(self, versions: Sequence[_KeptVersion]) -> None:
        """Report what was counted; one report follows the other, so that whoever asks for one gets the earlier too."""
        with self._reporting:
            models = {}
            for kept in versions:
                kept.reported_oldest_ns = kept.server.live.oldest_ns
                models[kept.lease] = (kept.server.take_counts(), kept.server.pending, kept.reported_oldest_ns)
            self._framework.ask(FrameworkModels.count, WorkerCounts(models, self._metrics.take()))


class _KeptVersion:
    """A version that serves in this worker."""

    def __init__(self, opened: OpenedVersion, server: RequestServer) -> None:
        self.name = opened.name
        self.serial = opened.serial
        self.lease = opened.lease
        self.server = server
        self.reported_oldest_ns = 0
        self.ready = ReadyVersion(Opened(opened.name, opened.version, server, opened.config), None)
