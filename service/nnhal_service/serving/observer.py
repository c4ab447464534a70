"""Those who want to know of every request: metrics, traces, logs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from nnhal.arrays import Array
from nnhal_service.runtime import RunReport
from nnhal_service.serving.errors import ServingError
from nnhal_service.serving.planned import PlannedEdge
from nnhal_service.serving.request import InferenceRequest, RequestTiming


class FailureReason(Enum):
    """Why a request failed, by Triton's names."""

    REJECTED = "REJECTED"
    """Before it ran: the queue was full, it waited too long, or the model is being unloaded."""
    CANCELED = "CANCELED"
    """By its client."""
    BACKEND = "BACKEND"
    """By a device, or since it took too long on one."""
    OTHER = "OTHER"
    """It is not what the model takes."""


class Finished(NamedTuple):
    """A request that has ended.

    ``batch_size`` is that of the execution that it was part of; its own where it did not run to the end, and 0 where
    it is not known. ``timing`` and ``report`` are None where it failed, ``error`` and ``reason`` where it did not.
    ``arrived_ns`` and ``ended_ns`` are instants of CLOCK_MONOTONIC. ``outputs`` must not be kept.
    """

    model_name: str
    model_version: str
    request: InferenceRequest
    batch_size: int
    timing: RequestTiming | None
    report: RunReport | None
    error: ServingError | None
    reason: FailureReason | None
    arrived_ns: int
    ended_ns: int
    outputs: Mapping[str, Array] = MappingProxyType({})


class Executed(NamedTuple):
    """A run of a model, of one request or of several.

    By plan it had ``steps``, the device of each, and ``edges``. There are no such steps where control flow decides
    which of them run. ``runs`` are more than one where they were alike and have been counted elsewhere. One of a
    client with memory of its own is a request too, that has no other sign; ``timing`` is that request's.
    """

    model_name: str
    model_version: str
    batch_size: int
    report: RunReport
    steps: tuple[str, ...]
    edges: tuple[PlannedEdge, ...]
    runs: int = 1
    timing: RequestTiming | None = None


class Observer(Protocol):
    """Is told of every request, in the thread that made it. It should be quick, and must not raise."""

    def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
        """A request has come; whether its run is to be measured."""
        ...

    def executed(self, executed: Executed) -> None:
        """A run has succeeded; in the thread of one of its requests, or of who asks what has been counted elsewhere."""
        ...

    def finished(self, finished: Finished) -> None:
        """A request has ended."""
        ...
