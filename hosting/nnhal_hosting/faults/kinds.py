"""Effects of faults: a class for each kind, by the word of its ``what``."""

from __future__ import annotations

import random
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from nnhal.device_calls import EXECUTE, LAUNCHES, PREPARE
from nnhal.types import ErrorStatus
from nnhal_hosting.faults.conditions import Condition, Layers, Patterns, Size

DEATHS = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTERM")
"""The signals by which a device can be made to die. SIGTERM has it end in order."""
_MOST_BYTES = 1 << 40
_MOST_MS = 24 * 3600 * 1000.0
Status = Literal[
    "DEVICE_UNAVAILABLE",
    "GENERAL_FAILURE",
    "OUTPUT_INSUFFICIENT_SIZE",
    "INVALID_ARGUMENT",
    "MISSED_DEADLINE_TRANSIENT",
    "MISSED_DEADLINE_PERSISTENT",
    "RESOURCE_EXHAUSTED_TRANSIENT",
    "RESOURCE_EXHAUSTED_PERSISTENT",
]


class LayerCondition(Condition):
    """Condition of a fault that may be about layers of models: then it happens each time that one is computed."""

    layer: Layers = ()
    """Layers, by number, type or name; the whole run without it."""

    @model_validator(mode="after")
    def _only_executions(self) -> LayerCondition:
        if self.layer and not self.methods <= set(EXECUTE):
            raise ValueError(f"got layers for {', '.join(self.method)}, expected executions: no other call computes")
        return self


class ErrorFault(LayerCondition):
    """The call fails with a status."""

    what: Literal["error"]
    status: Status = "GENERAL_FAILURE"
    message: str = Field(default="", max_length=1000)
    """Text for the client, besides the fault's name."""

    @property
    def error_status(self) -> ErrorStatus:
        """The status of the HAL."""
        return ErrorStatus[self.status]


class DelayFault(LayerCondition):
    """The call takes longer: by ``ms``, or by a time from a distribution around it."""

    what: Literal["delay"]
    ms: float = Field(ge=0.0, le=_MOST_MS)
    """Milliseconds: all of them, or the middle of a distribution."""

    distribution: Literal["fixed", "uniform", "normal", "exponential"] = "fixed"
    """Uniform within ``spread_ms`` of ``ms``; normal with ``spread_ms`` as deviation; exponential with mean ``ms``."""

    spread_ms: float = Field(default=0.0, ge=0.0, le=_MOST_MS)

    @model_validator(mode="after")
    def _spread(self) -> DelayFault:
        if (self.distribution in ("uniform", "normal")) != (self.spread_ms > 0):
            raise ValueError(
                f"got distribution {self.distribution!r} with spread_ms {self.spread_ms:g}, expected spread_ms above 0 "
                "with uniform and normal, and none otherwise"
            )
        return self

    def drawn_seconds(self, source: random.Random) -> float:
        match self.distribution:
            case "uniform":
                drawn = source.uniform(self.ms - self.spread_ms, self.ms + self.spread_ms)
            case "normal":
                drawn = source.gauss(self.ms, self.spread_ms)
            case "exponential":
                drawn = source.expovariate(1 / self.ms) if self.ms else 0.0
            case _:
                drawn = self.ms
        return min(max(drawn, 0.0), _MOST_MS) / 1000


class HangFault(LayerCondition):
    """The call does not end until the fault is cleared, whatever its deadline is."""

    what: Literal["hang"]


class DeathFault(LayerCondition):
    """The process dies in the call, by a signal or with an exit status."""

    what: Literal["death"]
    signal: Literal["", "SIGKILL", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTERM"] = ""
    exit: int | None = Field(default=None, ge=0, le=255)

    @model_validator(mode="after")
    def _one(self) -> DeathFault:
        if self.signal and self.exit is not None:
            raise ValueError(f"got signal {self.signal} and exit {self.exit}, expected one of them (SIGKILL without)")
        return self


class FenceFault(Condition):
    """The fence of a launch fails though the execution succeeds, or does not signal until the fault is cleared."""

    ACTS_IN: ClassVar[tuple[str, ...]] = LAUNCHES
    what: Literal["fence"]
    outcome: Literal["fails", "never"] = "fails"


class AnswerFault(Condition):
    """The answer on a burst's channel, or on a run channel, does not come, or comes ``ms`` after the execution."""

    ACTS_IN: ClassVar[tuple[str, ...]] = ("Channel.Burst", "Channel.Run")
    what: Literal["answer"]
    outcome: Literal["dropped", "late"] = "dropped"
    ms: float = Field(default=0.0, ge=0.0, le=_MOST_MS)

    @model_validator(mode="after")
    def _late(self) -> AnswerFault:
        if (self.outcome == "late") != (self.ms > 0):
            raise ValueError(f"got outcome {self.outcome!r} with ms {self.ms:g}, expected ms above 0 with late only")
        return self


class ShapesFault(Condition):
    """The answer has dimensions that contradict model and request, or those of one output too many."""

    ACTS_IN: ClassVar[tuple[str, ...]] = tuple(each for each in EXECUTE if each not in (*LAUNCHES, "Channel.Chain"))
    what: Literal["shapes"]
    wrong: Literal["dimensions", "count"] = "dimensions"


class ValuesFault(LayerCondition):
    """Outputs of the model, or of the layer, have wrong values. Later layers are computed with them."""

    ACTS_IN: ClassVar[tuple[str, ...]] = EXECUTE
    what: Literal["values"]
    how: Literal["bit_flips", "nan", "saturated"] = "bit_flips"
    """NaN changes outputs of floats only; ``saturated`` is the largest finite value."""

    output: int | None = Field(default=None, ge=0)
    """The number of the output of the model or of the layer; all without it."""

    flips: int = Field(default=1, ge=1, le=10**6)
    """Bits that are flipped in each output, at places that are drawn."""


class MemoryFault(Condition):
    """The device refuses memory: a buffer, or the pools of a request."""

    ACTS_IN: ClassVar[tuple[str, ...]] = ("Device.Allocate", "PreparedModel.CreateReusableExecution", *EXECUTE)
    what: Literal["memory"]
    method: Patterns = ("*",)
    status: Status = "GENERAL_FAILURE"

    @property
    def error_status(self) -> ErrorStatus:
        """The status of the HAL."""
        return ErrorStatus[self.status]


class ShrunkSramFault(Condition):
    """The working memory of the device has become smaller.

    Models are compiled for the rest. Executions of prepared models that take more fail.
    """

    ACTS_IN: ClassVar[tuple[str, ...]] = ("Backend.OptimizeSubgraph", *PREPARE, *EXECUTE)
    what: Literal["shrunk_sram"]
    method: Patterns = ("*",)
    bytes: Size = Field(ge=0, le=_MOST_BYTES)
    """The bytes that remain: a number, or a text such as 240KiB."""

    error_status: ClassVar[ErrorStatus] = ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT


class WithdrawnFault(Condition):
    """The device stops supporting operations of the types in ``operation``."""

    ACTS_IN: ClassVar[tuple[str, ...]] = (
        "Device.GetSupportedOperations",
        "Backend.AssessModel",
        "Backend.OptimizeSubgraph",
        *PREPARE,
    )
    what: Literal["withdrawn"]
    method: Patterns = ("*",)
    operation: Patterns = ("*",)


class CacheFault(Condition):
    """The files of a compilation cache are damaged before a model is prepared from them, for good."""

    ACTS_IN: ClassVar[tuple[str, ...]] = ("Device.PrepareModelFromCache",)
    what: Literal["damaged_cache"]
    method: Patterns = ("*",)
    flips: int = Field(default=1, ge=1, le=10**6)
    """Bits that are flipped in each file, at places that are drawn."""


class SlowClockFault(Condition):
    """The clock of the device is slow, as when it is too hot: executions take ``factor`` times as long."""

    ACTS_IN: ClassVar[tuple[str, ...]] = EXECUTE
    what: Literal["slow_clock"]
    factor: float = Field(gt=1.0, le=10_000.0)
