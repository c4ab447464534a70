"""The repository as a front worker sees it: its models are the framework's, bound to the worker's own memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial

from nnhal.threads import BriefThread
from nnhal_service.front_workers.served_worker import OpenedVersion, ServedWorker, WorkerCounts
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.repository import Lease, Opened
from nnhal_service.repository.ready_versions import ReadyVersion
from nnhal_service.serving import ServingError
from nnhal_service.serving.errors import draining
from nnhal_service.serving.history.live_requests import LiveRequests
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.models.request_server import RequestServer

Serve = Callable[[OpenedVersion], RequestServer]


class RemoteRepository:
    """The models in the ModelRepository of a front worker, of which the framework answers the rest. Safe to use from
    several threads.

    A version that was asked for once is kept, with its instances, until the framework says that it is no longer served:
    later requests for it cross no other process than the device's.
    """

    def __init__(
        self,
        framework: ServedWorker,
        serve: Serve,
        metrics: RequestMetrics,
        refused: RefusedCalls,
        drain_seconds: float,
    ) -> None:
        """``serve`` makes the worker's own server of a version. ``metrics`` observe all of them."""
        self._refused = refused
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
                return Lease(kept.ready)
            changes = self._changes
        while True:
            opened = self._framework.open(name, version)
            with self._lock:
                if changes == self._changes:
                    kept = self._keep(opened)
                    if version in ("", str(opened.version)):  # other spellings of a number are not worth the memory
                        self._found[name, version] = kept
                    lease = Lease(kept.ready)
                    break
                changes = self._changes  # what was opened may be unloaded by now
            opened.held.close()
        if kept.opened is not opened:
            opened.held.close()
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
            known = [serial for serial, kept in self._kept.items() if kept.opened.name == name]
            gone = [self._kept.pop(serial) for serial in known if serial not in serials]
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
            return self._refused.has_counted or any(
                kept.server.has_counted or kept.server.live.oldest_ns or kept.reported_oldest_ns
                for kept in self._kept.values()
            )

    def report(self) -> None:
        """Report what was counted since the last time. Raises UNAVAILABLE if the framework is gone."""
        with self._lock:
            kept = list(self._kept.values())
        self._report(kept)

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
            self._report([kept], are_last=True)
            kept.opened.held.close()
        except ServingError:  # the framework is gone, and this process ends
            return

    def _report(self, versions: Sequence[_KeptVersion], are_last: bool = False) -> None:
        """Report what was counted; one report follows the other, so that whoever asks for one gets the earlier too."""
        with self._reporting:
            models = []
            for kept in versions:
                if kept.is_open:
                    kept.is_open = not are_last
                    kept.reported_oldest_ns = kept.server.live.oldest_ns
                    counts = kept.server.take_counts()
                    models.append((kept.opened.held, counts, kept.server.pending, kept.reported_oldest_ns))
            self._framework.count(WorkerCounts(models, self._metrics.take(), self._refused.take()))


class _KeptVersion:
    """A version that serves in this worker."""

    def __init__(self, opened: OpenedVersion, server: RequestServer) -> None:
        self.opened = opened
        self.server = server
        self.reported_oldest_ns = 0
        self.is_open = True
        """True until its last report."""
        self.ready = ReadyVersion(Opened(opened.name, opened.version, server, opened.config), None)
