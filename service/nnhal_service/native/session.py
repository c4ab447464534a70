"""Objects that one session owns in the framework: models by name, bindings and memory by handle; and whether it may add
any.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass

from nnhal.errors import HalError, invalid_argument
from nnhal.link import Channel
from nnhal.types import ErrorStatus
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import Ownership, Sessions
from nnhal_service.access import THIS_HOST, TOO_OFTEN, ClientRates, user_client
from nnhal_service.runtime import ExecutionContext, LoadedModel
from nnhal_service.runtime.memory.domains import AllocatedMemory, Memories

DRAINS = "the framework drains: it takes no new work"


class Intake:
    """Open until the framework drains, and again afterwards. Safe to use from several threads."""

    def __init__(self) -> None:
        self.is_closed = False
        """True if new work is refused."""

    def require_open(self) -> None:
        """Raise DEVICE_UNAVAILABLE while the framework drains."""
        if self.is_closed:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, DRAINS)


@dataclass(frozen=True, slots=True, eq=False)
class SessionBinding:
    """A loaded model tied to memory, with the channel that runs it. It keeps those of ``memories`` that it uses."""

    model: LoadedModel
    context: ExecutionContext
    channel: Channel
    memories: Memories

    def close(self) -> None:
        """Release it after a run in flight has ended; harmless when repeated."""
        self.channel.shutdown()
        try:
            self.model.unbind(self.context)
        finally:
            self.memories.drop(self)


class NativeSession(Ownership):
    """The session of a client of the framework."""

    def __init__(
        self,
        session: Session,
        rates: ClientRates | None = None,
        has_tokens: bool = False,
        max_models: int = 0,
        intake: Intake | None = None,
    ) -> None:
        """``rates`` limit runs. Native clients share the bucket of their host with its requests over the protocol; if
        those have tokens and thus other buckets, as ``has_tokens`` says, each user has one for all of its sessions.

        At most ``max_models`` may be loaded at a time, 0 for any number. ``intake`` is that of the framework.
        """
        self.intake = intake or Intake()
        self._rates = rates
        self._max_models = max_models
        self._rated_as = user_client(session.uid) if has_tokens else THIS_HOST
        self._names = threading.Lock()
        self._models: dict[str, LoadedModel] | None = {}
        self.memories = Memories()
        # Runs after the base class has shut the channels down, since callbacks run last first.
        session.on_close(self._release)
        super().__init__(session)

    @property
    def client(self) -> str:
        """Return what the client is called in lists of runs."""
        return self.session.title

    @property
    def is_rate_limited(self) -> bool:
        return self._rates is not None

    def admit_run(self) -> None:
        """Count a run towards the rate limit.

        Raises RESOURCE_EXHAUSTED_TRANSIENT if the client runs too often, DEVICE_UNAVAILABLE if the framework drains.
        """
        self.intake.require_open()
        if self._rates is not None and not self._rates.admit(self._rated_as):
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, TOO_OFTEN)

    def own(self, item: object, undo: ExitStack) -> int:
        """Own an object and return its handle; ``undo`` releases the handle. Raises as ``add``."""
        handle = self.add(item)
        undo.callback(self.release, handle)
        return handle

    def add_model(self, name: str, model: LoadedModel) -> None:
        """Take over a model under a name, and release it with the session.

        Raises INVALID_ARGUMENT if the name is taken, RESOURCE_EXHAUSTED_TRANSIENT if too many models are loaded, and
        DEVICE_UNAVAILABLE if the session has ended; the model is then still the caller's.
        """
        with self._names:
            models = self._models
            if models is None:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
            if name in models:
                invalid_argument(f"a model called {name!r} is loaded already in this session")
            if self._max_models and len(models) >= self._max_models:
                raise HalError(
                    ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
                    f"the session has {self._max_models} models loaded, which is all that --max-models allows",
                )
            models[name] = model

    def model(self, name: str) -> LoadedModel:
        """Return a loaded model. Raises INVALID_ARGUMENT if the name is unknown."""
        with self._names:
            models = self._models or {}
            model, known = models.get(name), sorted(models)
        if model is None:
            invalid_argument(f"no model called {name!r} is loaded in this session; there are {known}")
        return model

    def remove_model(self, name: str) -> LoadedModel:
        """Forget a model and return it. Raises INVALID_ARGUMENT if the name is unknown."""
        model = self.model(name)
        with self._names:
            (self._models or {}).pop(name, None)
        return model

    @property
    def models(self) -> dict[str, LoadedModel]:
        """All models by name: those that the client has loaded itself, and those of the repository that it has open."""
        with self._names:
            return dict(self._models or {})

    @property
    def own_models(self) -> list[LoadedModel]:
        """The models that the client has loaded itself, without those of the repository."""
        return [model for model in self.models.values() if not model.is_share]

    def own_memory(self, memory: AllocatedMemory, undo: ExitStack) -> int:
        """Own memory and return its handle; ``undo`` frees it. Raises as ``add``, and frees the memory then."""
        self.memories.keep(memory, memory)
        undo.callback(self.memories.drop, memory)
        return self.own(memory, undo)

    def memory(self, handle: int) -> AllocatedMemory:
        """Return allocated memory. Raises INVALID_ARGUMENT if the handle is unknown."""
        return self.get(handle, AllocatedMemory, "memory")

    def free_memory(self, handle: int) -> None:
        """Free memory; bindings that use it keep it. Raises INVALID_ARGUMENT if the handle is unknown."""
        memory = self.memory(handle)
        self.release(handle)
        self.memories.drop(memory)

    def binding(self, handle: int) -> SessionBinding:
        """Return a binding. Raises INVALID_ARGUMENT if the handle is unknown."""
        return self.get(handle, SessionBinding, "binding")

    def unbind(self, handle: int) -> None:
        """Release a binding after a run in flight has ended; unknown handles do no harm."""
        binding = self.find(handle, SessionBinding)
        if binding is not None:
            try:
                binding.close()
            finally:
                self.release(handle)

    def _release(self) -> None:
        with self._names:
            models, self._models = self._models, None
        for model in (models or {}).values():
            model.close(drain_seconds=0)  # nobody waits for the runs any more
        self.memories.close()


NativeSessions = Sessions[NativeSession]
"""The sessions of all clients of the framework."""
