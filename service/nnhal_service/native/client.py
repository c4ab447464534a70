"""What one session owns in the framework: models by name, bindings by handle."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from nnhal.errors import HalError, invalid_argument
from nnhal.link import Channel, Session
from nnhal.sessions import Ownership, Sessions
from nnhal.types import ErrorStatus
from nnhal_service.runtime import ExecutionContext, LoadedModel


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A loaded model tied to the client's memory, with the channel that runs it."""

    model: LoadedModel
    context: ExecutionContext
    channel: Channel

    def close(self) -> None:
        """Release it, when a run in flight has ended."""
        self.channel.shutdown()
        self.model.unbind(self.context)


class Client(Ownership):
    """A client of the framework."""

    def __init__(self, session: Session) -> None:
        self._names = threading.Lock()
        self._models: dict[str, LoadedModel] | None = {}
        # Runs after the base class has shut the channels down, since callbacks run last first.
        session.on_close(self._release)
        super().__init__(session)

    def add_model(self, name: str, model: LoadedModel) -> None:
        """Know a model by a name, and release it with the session.

        Raises INVALID_ARGUMENT where the name is taken, DEVICE_UNAVAILABLE where the session ended while the model was
        loaded; the model is then released at once.
        """
        with self._names:
            models = self._models
            if models is not None and name not in models:
                models[name] = model
                return
        model.close()
        if models is None:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
        invalid_argument(f"a model called {name!r} is loaded already in this session")

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

    def binding(self, handle: int) -> Binding:
        """A binding. Raises INVALID_ARGUMENT."""
        return self.get(handle, Binding, "binding")

    def _release(self) -> None:
        with self._names:
            models, self._models = self._models, None
        for model in (models or {}).values():
            model.close()


Clients = Sessions[Client]
"""Every client of the framework."""
