"""The repository's entry for one model name: the versions that serve, and the state of the others."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple

from nnhal_service.repository.ready_versions import Lease, ReadyVersion, S
from nnhal_service.serving.errors import ErrorKind, ServingError


class ModelState(Enum):
    """The states of a version of a model, by the protocol's names."""

    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """A version of a model in the index.

    ``version`` is empty if none is known. ``reason`` says why it does not serve, or why a newer one does not.
    """

    name: str
    version: str
    state: ModelState
    reason: str = ""


class Standing(NamedTuple):
    """State of an entry's versions that do not serve, and of its last load."""

    others: Mapping[str, tuple[ModelState, str]]
    failure: str
    tried: object


class RepositoryEntry(Generic[S]):
    """One model name. ``changing`` is held while it is loaded or unloaded; everything else may be used at any time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changing = threading.Lock()
        self.tried: object = None
        """The fingerprint of the files of the last load, whether it succeeded or failed."""
        self.is_given = False
        """True if the versions that serve came with a request, and not from a repository's folder."""
        self._lock = threading.Lock()
        self._ready: dict[int, ReadyVersion[S]] = {}
        self._others: dict[str, tuple[ModelState, str]] = {}
        self._failure = ""
        self._expected = 0

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Say of versions that are unknown that they are not ready, since a load is to come or is under way."""
        with self._lock:
            self._expected += 1
        try:
            yield
        finally:
            with self._lock:
                self._expected -= 1

    @property
    def failure(self) -> str:
        """Reason why the last load failed; empty if it succeeded."""
        with self._lock:
            return self._failure

    @property
    def ready(self) -> dict[int, ReadyVersion[S]]:
        with self._lock:
            return dict(sorted(self._ready.items()))

    def lease(self, version: int | None) -> Lease[S]:
        """Hold a version, by default the newest. Raises NOT_FOUND or UNAVAILABLE."""
        with self._lock:
            wanted = max(self._ready, default=None) if version is None else version
            if wanted in self._ready:
                return Lease(self._ready[wanted])
            known = bool(self._ready or self._others) if version is None else str(version) in self._others
            known |= self._expected > 0
        which = "" if version is None else f" version {version}"
        if not known:
            raise unknown_model(self.name, which)
        raise unready_model(self.name, which)

    def index(self) -> list[ModelIndex]:
        with self._lock:
            rows = [ModelIndex(self.name, v, state, reason) for v, (state, reason) in self._others.items()]
            rows += [ModelIndex(self.name, str(v), ModelState.READY, self._failure) for v in self._ready]
        return sorted(rows, key=lambda row: int(row.version or 0))

    def loading(self, versions: Collection[int]) -> None:
        """Note that versions are being loaded; those that serve keep serving."""
        with self._lock:
            self._others = {str(v): (ModelState.LOADING, "") for v in versions if v not in self._ready}

    def failed(self, reason: str) -> None:
        """Note that the versions that were being loaded cannot be; those that serve keep serving."""
        with self._lock:
            self._failure = reason
            missing = [version for version, (state, _) in self._others.items() if state is ModelState.LOADING]
            if not missing and not self._ready:
                missing = [""]
            self._others = dict.fromkeys(missing, (ModelState.UNAVAILABLE, reason))

    def standing(self) -> Standing:
        """Return what the index says beside the versions that serve."""
        with self._lock:
            return Standing(self._others, self._failure, self.tried)

    def restore(self, standing: Standing) -> None:
        """Have the index say what it said before a load that failed."""
        with self._lock:
            self._others, self._failure, self.tried = dict(standing.others), standing.failure, standing.tried

    def replace(self, versions: Mapping[int, ReadyVersion[S]]) -> dict[int, ReadyVersion[S]]:
        """Serve these versions and no others. Returns those to be closed, which get no more leases."""
        with self._lock:
            old = {v: ready for v, ready in self._ready.items() if versions.get(v) is not ready}
            self._ready = dict(versions)
            self._failure = ""
            self._others = {str(v): (ModelState.UNLOADING, "") for v in old if v not in versions}
        return old

    def unloaded(self) -> None:
        """Note that the versions that ``replace`` returned are closed."""
        with self._lock:
            self._others = dict.fromkeys(self._others, (ModelState.UNAVAILABLE, "unloaded"))

    def forget(self) -> None:
        """Drop all versions that do not serve from the index."""
        with self._lock:
            self._others, self._failure = {}, ""
            self.tried = None


def unready_model(name: str, which: str = "") -> ServingError:
    """Make the error for a model, or a version that ``which`` names, that does not serve at this moment."""
    return ServingError(ErrorKind.UNAVAILABLE, f"Request for unknown model: '{name}'{which} is not at ready state")


def unknown_model(name: str, which: str = "") -> ServingError:
    """Make the error for an unknown model, or for an unknown version that ``which`` names."""
    return ServingError(ErrorKind.NOT_FOUND, f"Request for unknown model: '{name}'{which} is not found")
