"""What a front of the protocol needs of the server behind it.

Every method may be called from several threads, and raises ServingError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from nnhal.inference.grpc_service_pb2 import ModelStatistics
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal_service.serving.request import InferenceRequest, InferenceResponse
from nnhal_service.serving.signature import TensorDescription

RepositoryParameter = bool | int | str | bytes
LogSetting = bool | int | str


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What the server says of itself. ``extensions`` are those that it honours, by the protocol's names."""

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """What a model says of itself: its metadata. ``versions`` are those that are served."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorDescription, ...]
    outputs: tuple[TensorDescription, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A version of a model in the repository; ``version`` is empty where none has been loaded.

    ``state`` is UNKNOWN, READY, UNAVAILABLE, LOADING or UNLOADING; ``reason`` says why, where there is more to say.
    """

    name: str
    version: str
    state: str
    reason: str


class Model(Protocol):
    """A version of a model that is loaded."""

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

    def infer(self, request: InferenceRequest) -> InferenceResponse:
        """Run it once; blocks until it has run."""


class ModelRepository(Protocol):
    """The models. ``version`` is as the client gave it; empty for the one that the server chooses."""

    def ready(self) -> bool:
        """Whether what was to be served is ready."""

    def is_ready(self, name: str, version: str) -> bool:
        """Whether a model is; False for one that is not known."""

    def model(self, name: str, version: str) -> AbstractContextManager[Model]:
        """A loaded model, which is not unloaded before the context has been left.

        NOT_FOUND for one that is not known, UNAVAILABLE for one that is not ready.
        """

    def description(self, name: str, version: str) -> ModelDescription:
        """Its metadata. Errors as ``model``."""

    def config(self, name: str, version: str) -> ModelConfig:
        """Its whole configuration. Errors as ``model``."""

    def statistics(self, name: str, version: str) -> Sequence[ModelStatistics]:
        """Of one version, of all versions where it is empty, of all models where the name is."""

    def index(self, ready_only: bool) -> Sequence[IndexEntry]:
        """What is in the repository."""

    def known(self, name: str) -> Sequence[IndexEntry]:
        """What the index has of one model that is loaded, was, or could not be. No file is read."""

    def load(self, name: str, parameters: Mapping[str, RepositoryParameter]) -> None:
        """Load a model, or load it again; returns when it is ready. ``config`` and ``file:…`` as in the protocol."""

    def unload(self, name: str, unload_dependents: bool) -> None:
        """Take a model out of service; inferences that run come to their end."""


@dataclass(frozen=True, slots=True)
class Region:
    """A registered part of a shared memory file."""

    name: str
    key: str
    offset: int
    byte_size: int


class SharedMemory(Protocol):
    """Regions that clients registered. ``owner`` says which client; no client reaches another's regions."""

    def register(self, region: Region, owner: str) -> None:
        """ALREADY_EXISTS where the name is taken."""

    def unregister(self, name: str, owner: str) -> None:
        """Forget a region when nothing uses it any more; all of the owner's where the name is empty."""

    def status(self, name: str, owner: str) -> Sequence[Region]:
        """One region, or all of the owner's where the name is empty. NOT_FOUND."""

    def read(self, name: str, offset: int, byte_size: int, owner: str) -> bytes | memoryview:
        """Bytes from ``offset`` on in a region. NOT_FOUND, INVALID_ARGUMENT beyond its end."""

    def write(self, name: str, offset: int, contents: bytes | bytearray | memoryview, owner: str) -> None:
        """Put bytes at ``offset`` into a region. Errors as ``read``."""


class TraceSettings(Protocol):
    """What is traced."""

    def update(self, model_name: str, changes: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """Change settings of a model, or of all where the name is empty; all settings as they then are.

        A change without values puts the setting back to what it was at the start, or of a model to that of all.
        """


class LogSettings(Protocol):
    """What is logged."""

    def update(self, changes: Mapping[str, LogSetting]) -> Mapping[str, LogSetting]:
        """Change settings; all settings as they then are."""
