"""Versions of models that are ready to serve, and leases of them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from nnhal.inference import model_config_pb2 as wire
from nnhal_hosting.logs import get_logger
from nnhal_service.repository.source import ModelSource
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.requests.request import InferenceRequest

_log = get_logger(__name__)
_serials = itertools.count(1)


class Servable(Protocol):
    """Interface of a served model to the repository."""

    def warm_up(self, requests: Iterable[InferenceRequest]) -> None:
        """Run requests before those of clients. Raises ServingError."""

    def close(self) -> None:
        """Finish the requests in flight and release everything."""


S = TypeVar("S", bound=Servable)
Serve = Callable[[str, str, LoadedModel, ServingConfig], S]
"""Makes a served model of its name, its version, the loaded model, which it takes over, and its configuration."""


@dataclass(frozen=True, slots=True)
class Opened(Generic[S]):
    """A version that has been loaded: its served model and its complete configuration."""

    name: str
    version: int
    served: S
    config: wire.ModelConfig
    file: str = ""
    """Where the model's file lies; empty if it came with a request."""


Open = Callable[[str, int, wire.ModelConfig, ModelSource], Opened[S]]
"""Loads a version of a model from its files, by its configuration, and runs its warm-up.

Raises ServingError, and then leaves nothing behind.
"""


Reopen = Callable[[Opened[S], ModelSource], Opened[S]]
"""Makes a version anew of one that serves. The source has the model's files, or none if they came with a request.

Raises ServingError, and then leaves nothing behind.
"""


class Lease(Generic[S]):
    """Keeps a version loaded until it is released. Use as a context, or call ``release``."""

    __slots__ = ("_held", "_opened", "model", "serial")

    def __init__(self, version: ReadyVersion[S]) -> None:
        """Hold a version, which may not have been closed."""
        self.model = version.opened.served
        self.serial = version.serial
        """Tells the version from another load of it."""
        self._opened = version.opened
        self._held: ReadyVersion[S] | None = version
        with version.lock:
            version.leases += 1

    @property
    def name(self) -> str:
        return self._opened.name

    @property
    def version(self) -> str:
        """The version as the protocol writes it."""
        return str(self._opened.version)

    @property
    def config(self) -> wire.ModelConfig:
        """The complete configuration."""
        return self._opened.config

    @property
    def file(self) -> str:
        """Return where the model's file lies, for operators; empty if it came with a request."""
        return self._opened.file

    def release(self) -> None:
        """Release the version; harmless when repeated."""
        version, self._held = self._held, None
        if version is not None:
            with version.lock:
                version.leases -= 1
                if version.is_closing:
                    version.ended.notify_all()

    def __enter__(self) -> Lease[S]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ReadyVersion(Generic[S]):
    """A version that serves until it is closed. Safe to use from several threads."""

    def __init__(self, opened: Opened[S], fingerprint: object) -> None:
        """``fingerprint`` changes if the version would have to be loaded again."""
        self.opened = opened
        self.serial = next(_serials)
        """Tells it from another load of the same version."""
        self.fingerprint = fingerprint
        self.lock = threading.Lock()
        """Guards what follows, which leases use."""
        self.ended = threading.Condition(self.lock)
        self.is_closing = False
        self.leases = 0

    def close(self, drain_seconds: float) -> None:
        """Wait up to ``drain_seconds`` for the leases to be released, then free everything."""
        with self.lock:
            self.is_closing = True
            if not self.ended.wait_for(lambda: self.leases == 0, drain_seconds):
                name, version = self.opened.name, self.opened.version
                _log.warning("a model is closed while requests hold it", model=name, version=version)
        self.opened.served.close()
