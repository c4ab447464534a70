"""What one session owns in the framework: models by name, bindings and memory by handle."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from nnhal.errors import HalError, invalid_argument
from nnhal.link import Channel
from nnhal.types import ErrorStatus
from nnhal_hosting.link_server import Session
from nnhal_hosting.sessions import Ownership, Sessions
from nnhal_service.access import TOO_OFTEN, RateLimits
from nnhal_service.runtime import ExecutionContext, LoadedModel
from nnhal_service.runtime.memory.domains import AllocatedMemory, Memories


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A loaded model tied to memory, with the channel that runs it. Of ``memories`` it keeps what it uses."""

    model: LoadedModel
    context: ExecutionContext
    channel: Channel
    memories: Memories

    def close(self) -> None:
        """Release it, when a run in flight has ended."""
        self.channel.shutdown()
        self.model.unbind(self.context)
        self.memories.drop(self)


class Client(Ownership):
    """A client of the framework."""

    def __init__(self, session: Session, rates: RateLimits | None = None, max_models: int = 0) -> None:
        """``rates`` are for runs; each user of the host has one bucket, however many sessions. ``max_models`` may be
        loaded at a time, 0 for any number.
        """
        self._rates = rates
        self._max_models = max_models
        self._user = f"user {session.uid}"
        self._names = threading.Lock()
        self._models: dict[str, LoadedModel] | None = {}
        self.memories = Memories()
        # Runs after the base class has shut the channels down, since callbacks run last first.
        session.on_close(self._release)
        super().__init__(session)

    @property
    def is_rate_limited(self) -> bool:
        """Whether its runs have to be asked for."""
        return self._rates is not None

    def admit_run(self) -> None:
        """Ask for a run. Raises RESOURCE_EXHAUSTED_TRANSIENT where the client's user runs too often."""
        if self._rates is not None and not self._rates.admit(self._user):
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, TOO_OFTEN)

    def add_model(self, name: str, model: LoadedModel) -> None:
        """Know a model by a name, and release it with the session.

        Raises INVALID_ARGUMENT where the name is taken, RESOURCE_EXHAUSTED_TRANSIENT where it has too many already,
        DEVICE_UNAVAILABLE where the session ended while the model was loaded; the model is then released at once.
        """
        with self._names:
            models = self._models
            is_full = bool(self._max_models) and len(models or {}) >= self._max_models
            if models is not None and name not in models and not is_full:
                models[name] = model
                return
        model.close()
        if models is None:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
        if name in models:
            invalid_argument(f"a model called {name!r} is loaded already in this session")
        raise HalError(
            ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
            f"the session has {self._max_models} models loaded, which is all that --max-models allows",
        )

    def model(self, name: str) -> LoadedModel:
        """A loaded model. Raises INVALID_ARGUMENT."""
        with self._names:
            models = self._models or {}
            model, known = models.get(name), sorted(models)
        if model is None:
            invalid_argument(f"no model called {name!r} is loaded in this session; there are {known}")
        return model

    def remove_model(self, name: str) -> LoadedModel:
        """Forget a model. Raises INVALID_ARGUMENT."""
        model = self.model(name)
        with self._names:
            (self._models or {}).pop(name, None)
        return model

    def count_direct_runs(self, until: float) -> None:
        """Have watchers know of what has been run of lent steps of models that it has loaded; see LoadedModel."""
        with self._names:
            models = [model for model in (self._models or {}).values() if not model.is_share]
        for model in models:
            model.count_direct_runs(until)

    def add_memory(self, memory: AllocatedMemory) -> int:
        """Own memory and return its handle. Raises as ``add``, and gives it up then."""
        self.memories.keep(memory, memory)
        try:
            return self.add(memory)
        except HalError:
            self.memories.drop(memory)
            raise

    def memory(self, handle: int) -> AllocatedMemory:
        """Allocated memory. Raises INVALID_ARGUMENT."""
        return self.get(handle, AllocatedMemory, "memory")

    def free_memory(self, handle: int) -> None:
        """Give memory up; bindings that use it keep it. Raises INVALID_ARGUMENT."""
        memory = self.memory(handle)
        self.release(handle)
        self.memories.drop(memory)

    def binding(self, handle: int) -> Binding:
        """A binding. Raises INVALID_ARGUMENT."""
        return self.get(handle, Binding, "binding")

    def _release(self) -> None:
        with self._names:
            models, self._models = self._models, None
        for model in (models or {}).values():
            model.close()
        self.memories.close()


Clients = Sessions[Client]
"""Every client of the framework."""
