"""A model that this process has loaded and serves, and the register of those that there are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from nnhal.errors import NnhalError
from nnhal_frontends.errors import FrontendError
from nnhal_service.partition import PlacementError
from nnhal_service.runtime import LoadedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError, serving_error
from nnhal_service.serving.history.client_runs import ClientRuns
from nnhal_service.serving.history.ended_runs import RunLog
from nnhal_service.serving.history.observer import Observer, Sampler
from nnhal_service.serving.history.statistics import ModelStatistics, RequestCounts
from nnhal_service.serving.instances.bindable_model import BindableLoadedModel
from nnhal_service.serving.instances.instance import NOT_COUNTED
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.instances.sequence_memory import StatefulMemory, StatelessMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.models.request_server import RequestServer
from nnhal_service.serving.queue.sequences import SequenceMemory, Sequencer
from nnhal_service.serving.requests.request import InferenceRequest
from nnhal_service.serving.requests.signature import ModelSignature

_KEPT_OF_SEQUENCE = 2
"""Instances of a sequence that wait for its next request: for two shapes of its inputs."""


class ServedModel(RequestServer):
    """A loaded model that serves requests, of this process and of others that bind it to memory of their own."""

    def __init__(
        self,
        name: str,
        version: str,
        loaded: LoadedModel,
        config: ServingConfig,
        loop: ServingLoop,
        observers: Sequence[Observer] = (),
        samplers: Sequence[Sampler] = (),
        measure: bool = False,
        register: ServedModelRegister | None = None,
        run_log: RunLog | None = None,
        memory: InstanceMemory = NOT_COUNTED,
    ) -> None:
        """Takes ``loaded`` over: it is closed with the served model. ``register`` knows the model until then. The
        ``run_log`` is called for runs of native clients. The rest is as RequestServer has it.

        Raises ServingError: UNSUPPORTED if the protocol has no datatype for a tensor, INVALID_ARGUMENT if the
        configuration wants batches of a model that has no batch axis, or no instances.
        """
        sequences = config.sequences
        hidden = () if sequences is None else sequences.hidden
        signature = ModelSignature.of(
            name,
            loaded.original,
            config.max_batch_size,
            hidden,
            config.input_shapes,
            config.output_shapes,
            config.unlisted_outputs,
            sequences is not None,
        )
        states = loaded.original.imported.states
        if states and sequences is None:
            names = ", ".join(repr(state.name) for state in states)
            message = f"model {name!r} carries {names} from request to request, expected sequence_batching"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        self.bindable = BindableLoadedModel(loaded)
        """The model, to be bound to memory."""
        super().__init__(name, version, signature, self.bindable, config, loop, observers, samplers, measure, memory)
        self._loaded = loaded
        self._given: dict[frozenset[str], RequestServer] = {}
        self._giving = threading.Lock()
        self._is_stateful = bool(states)
        if sequences is not None:
            self._sequences = Sequencer(
                name, sequences, self._sequence_memory, config.instances, signature.hidden_shapes, loop
            )
        self._client_runs = ClientRuns(
            name, version, config.max_batch_size > 0, self._statistics, self._observers, run_log
        )
        self._pending_elsewhere: dict[object, tuple[int, int]] = {}
        self._register = register
        if register is not None:
            register.add(self)

    @property
    def arena_bytes(self) -> int:
        """The bytes of the values between its steps, in all instances."""
        return self._loaded.arena_bytes

    @property
    def substitute_bytes(self) -> int:
        """Bytes that its substitutes count: plans without a device that may die."""
        return self._loaded.substitute_bytes

    @property
    def loaded(self) -> LoadedModel:
        return self._loaded

    async def _server_of(self, request: InferenceRequest) -> RequestServer:
        given = frozenset(tensor.name for tensor in self.signature.optional if tensor.name in request.inputs)
        if not given:
            return self
        server = self._given.get(given)
        return await self._loop.compute(self._serve_given, given) if server is None else server

    def _serve_given(self, given: frozenset[str]) -> RequestServer:
        """Return the server of requests with these of the optional inputs: another plan, in which they are no
        constants.
        """
        with self._giving:
            server = self._given.get(given)
            if server is not None:
                return server
            try:
                bindable = self.bindable.with_given(given)
            except (FrontendError, PlacementError) as error:
                raise ServingError(ErrorKind.INVALID_ARGUMENT, f"model '{self.name}': {error}") from error
            except NnhalError as error:
                raise serving_error(self.name, error) from error
            config = self.config
            signature = ModelSignature.of(
                self.name,
                bindable.loaded.original,
                config.max_batch_size,
                (),
                config.input_shapes,
                config.output_shapes,
                config.unlisted_outputs,
            )
            server = self._given[given] = RequestServer(
                self.name,
                self.version,
                signature,
                bindable,
                config,
                self._loop,
                self._observers[: len(self._observers) - len(self._samplers)],
                self._samplers,
                self._measure,
                self._memory,
                counted_in=self,
            )
            return server

    def statistics(self, ask_devices: bool = True) -> ModelStatistics:
        """All requests since it was loaded; direct runs as last counted, unless devices are asked for them."""
        if ask_devices:
            self._loaded.count_direct_runs()
        return self._statistics.snapshot(self.queued)

    @property
    def queued(self) -> int:
        """Return how many requests wait, here and in other processes."""
        return self.pending + sum(count for count, _ in list(self._pending_elsewhere.values()))

    @property
    def oldest_request_ns(self) -> int:
        """Return how long the oldest request has waited or run until now, here or in another process; 0 if there is
        none.
        """
        elsewhere = [oldest for _, oldest in list(self._pending_elsewhere.values())]
        arrivals = [instant for instant in (self.live.oldest_ns, *elsewhere) if instant]
        return time.monotonic_ns() - min(arrivals) if arrivals else 0

    def add_counts(self, counts: RequestCounts) -> None:
        self._statistics.add(counts)

    def note_pending(self, process: object, count: int = 0, oldest_ns: int = 0) -> None:
        """Note how many requests wait in another process, which ``process`` stands for, and when the oldest one that
        waits or runs there arrived, by CLOCK_MONOTONIC; 0 for none.
        """
        if count or oldest_ns:
            self._pending_elsewhere[process] = count, oldest_ns
        else:
            self._pending_elsewhere.pop(process, None)

    def open(self, client: str = "") -> LoadedModel:
        """The model for a native client, which closes it; it is of no use once the served model is closed.

        ``client`` names the client. Raises HalError with DEVICE_UNAVAILABLE if the served model is closed.
        """
        return self._loaded.share(self._client_runs.of(client))

    def _sequence_memory(self) -> SequenceMemory:
        if not self._is_stateful:
            return StatelessMemory(self._runner.start)
        return StatefulMemory(self.bindable, lambda model: self._runner_of(model, _KEPT_OF_SEQUENCE))

    def close(self) -> None:
        for server in list(self._given.values()):
            server.close()
        super().close()
        self._loaded.close()
        if self._register is not None:
            self._register.remove(self)


class ServedModelRegister:
    """The models that are served, those that are being unloaded included. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[ServedModel, None] = {}
        self._closed = RequestCounts()
        self.on_gone: Callable[[str, str], None] = lambda *_: None
        """Called with the name and the version of a model that is served no more, when its last request has ended."""

    def add(self, model: ServedModel) -> None:
        """Know a model until it is removed."""
        with self._lock:
            self._models[model] = None

    def remove(self, model: ServedModel) -> None:
        """Forget a model that is closed, but not what it has counted; harmless if it is unknown."""
        with self._lock:
            if model in self._models:
                del self._models[model]
                self._closed.add(model.counts)
                name, version = model.name, model.version
                if not any((other.name, other.version) == (name, version) for other in self._models):
                    self.on_gone(name, version)

    def all(self) -> list[ServedModel]:
        """The models, the oldest first."""
        with self._lock:
            return list(self._models)

    def counts(self) -> RequestCounts:
        """The sums over all models since the process started."""
        with self._lock:
            sums = self._closed.copy()
            for model in self._models:
                sums.add(model.counts)
        return sums
