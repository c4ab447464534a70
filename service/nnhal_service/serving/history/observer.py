"""Metrics, traces and logs of every request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from nnhal.reports import NOTHING_COPIED, CopiedBytes
from nnhal_service.runtime import RunReport
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.requests.client_memory import TensorData
from nnhal_service.serving.requests.planned_run import PlannedEdge
from nnhal_service.serving.requests.request import InferenceRequest, RequestTiming


class FailureReason(Enum):
    """Reason of a failed request, by Triton's names."""

    REJECTED = "REJECTED"
    """It did not run: the queue was full, it waited too long, or the model is being unloaded."""
    CANCELED = "CANCELED"
    """Its client cancelled it."""
    BACKEND = "BACKEND"
    """A device failed, or took too long."""
    OTHER = "OTHER"
    """It does not fit the model, or the framework failed."""


class Finished(NamedTuple):
    """A request that has ended."""

    model_name: str
    model_version: str
    request: InferenceRequest
    batch_size: int
    """The size of its batch; its own size if it failed, 0 if that is unknown."""
    timing: RequestTiming | None
    """None if it failed."""
    report: RunReport | None
    """None if it failed."""
    error: ServingError | None
    """None if it succeeded."""
    reason: FailureReason | None
    """None if it succeeded."""
    arrived_ns: int
    """An instant of CLOCK_MONOTONIC, as ``ended_ns``."""
    ended_ns: int
    outputs: Mapping[str, TensorData] = MappingProxyType({})
    """Views of memory that is used again; an observer must not keep them."""
    client: str = ""
    """Who asked for it: the address of a connection; empty if that is unknown."""
    devices: str = ""
    """Operations by device, such as ``cpu_acc:3,cpu_ref:1``; empty if it failed, or if that is unknown."""
    copied: CopiedBytes = NOTHING_COPIED
    """What was copied in its run; nothing if it failed, or if that is unknown."""


class Executed(NamedTuple):
    """A run of a model, for one request or for a batch of them."""

    model_name: str
    model_version: str
    batch_size: int
    report: RunReport
    steps: tuple[str, ...]
    """The device of each step, by plan; empty if control flow decides which steps run."""
    edges: tuple[PlannedEdge, ...]
    """What passed between the steps, by plan."""
    runs: int = 1
    """More than one for direct runs, which their client has counted."""
    timing: RequestTiming | None = None
    """The timing of a native client's run, for which there is no ``Finished``; else None."""


class Observer(Protocol):
    """Hears of every request. It should be quick, since it mostly runs in the event loop, and must not raise."""

    def executed(self, executed: Executed) -> None:
        """A run has succeeded: called in the loop, in the thread that ran it, or in that which counts direct runs."""
        ...

    def finished(self, finished: Finished) -> None:
        """A request has ended: called in the loop, in the request's own context."""
        ...


class OfRequests:
    """An observer of requests only."""

    def executed(self, executed: Executed) -> None:
        """Do nothing: a request is observed when it has finished."""


class Sampler(Observer, Protocol):
    """An observer that also hears when a request begins, and chooses the requests whose steps are measured."""

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        """A request begins; return whether its run is to report its steps. Told where ``finished`` is."""
        ...
