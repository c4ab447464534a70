"""Interface of a V2 server to the framework behind it.

Every method raises ServingError, and may be called from several threads, but for the coroutine that runs a model, which
belongs to the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from nnhal.inference.grpc_service_pb2 import ModelStatistics
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal_service.serving.requests.client_memory import Place
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse
from nnhal_service.serving.requests.signature import TensorDescription

RepositoryParameter = bool | int | str | bytes
LogSetting = bool | int | str


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """The server's metadata. ``extensions`` are those that it supports, by the protocol's names."""

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model's metadata."""

    name: str
    versions: tuple[str, ...]
    """The versions that are ready."""
    platform: str
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A version of a model in the repository."""

    name: str
    version: str
    """Empty if no version has been loaded."""
    state: str
    """UNKNOWN, READY, UNAVAILABLE, LOADING or UNLOADING."""
    reason: str
    """Why it is in that state; empty if that needs no explanation."""


class ModelBackend(Protocol):
    """A loaded version of a model."""

    @property
    def inputs(self) -> tuple[TensorDescription, ...]:
        """Its inputs, with the batch axis."""

    @property
    def outputs(self) -> tuple[TensorDescription, ...]:
        """Its outputs, with the batch axis."""

    @property
    def max_batch_size(self) -> int:
        """0 for a model without batches."""

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The names of classes, by output."""

    async def infer(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        """Run it once for a client, by its address; returns when it has run."""


class ModelLease(Protocol):
    """Keeps a model loaded until the context is left."""

    @property
    def model(self) -> ModelBackend:
        """The model."""

    def release(self) -> None:
        """Let go of it; harmless when repeated."""

    def __enter__(self) -> ModelLease: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ModelRepository(Protocol):
    """The models. ``version`` is as the client gave it; if it is empty, the server chooses one."""

    def ready(self) -> bool:
        """Return whether all models that were to be loaded are ready."""

    def is_ready(self, name: str, version: str) -> bool:
        """Return whether a model is ready; False if it is unknown."""

    def model(self, name: str, version: str) -> ModelLease:
        """A loaded model. Raises NOT_FOUND if it is unknown, UNAVAILABLE if it is not ready."""

    def description(self, name: str, version: str) -> ModelDescription:
        """A model's metadata. Raises as ``model``."""

    def config(self, name: str, version: str) -> ModelConfig:
        """A model's whole configuration. Raises as ``model``."""

    def statistics(self, name: str, version: str) -> Sequence[ModelStatistics]:
        """The statistics of one version; of all versions if it is empty, of all models if the name is."""

    def index(self, ready_only: bool) -> Sequence[IndexEntry]:
        """All models of the repository, or those that are ready."""

    def known(self, name: str) -> Sequence[IndexEntry]:
        """The entries of one model that is loaded, was loaded, or could not be. No file is read."""

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        """Load a model, or load it again; returns when it is ready. ``config`` and ``file:…`` are the protocol's."""

    def unload(self, name: str, unload_dependents: bool) -> None:
        """Unload a model; the inferences that run end first."""


@dataclass(frozen=True, slots=True)
class SharedRegion:
    """A registered part of a shared memory file."""

    name: str
    key: str
    offset: int
    byte_size: int


class SharedMemory(Protocol):
    """Regions that clients have registered. ``owner`` names the client; no client reaches another client's regions."""

    def register(self, region: SharedRegion, owner: str) -> None:
        """Raises ALREADY_EXISTS if the name is taken."""

    def unregister(self, name: str, owner: str) -> None:
        """Forget a region, or all of the owner's if the name is empty. Requests that use it end first."""

    def status(self, name: str, owner: str) -> Sequence[SharedRegion]:
        """One region, or all of the owner's if the name is empty. Raises NOT_FOUND."""

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> bytes | memoryview:
        """Bytes of a region from ``offset`` on. Raises NOT_FOUND, and INVALID_ARGUMENT beyond the region's end."""

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        """Write bytes into a region from ``offset`` on. Raises as ``read``."""

    def place(self, name: str, offset: int, byte_size: int, owner: str) -> Place:
        """The place of bytes of a region, which stays valid if the region is unregistered. Raises as ``read``."""

    def is_prompt(self, owner: str) -> bool:
        """Return whether the owner's regions are so small and so well known that the event loop itself may use them."""


class TraceSettings(Protocol):
    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """Change settings of a model, or of all models if the name is empty, and return all settings.

        A change without values resets the setting: to its value at the start, or a model's to that of all models.
        """


class LogSettings(Protocol):
    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        """Change settings, and return all settings."""
