"""What happens when a fault does: a class for each kind, by the word of its ``what``."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field, model_validator

from nnhal.types import ErrorStatus
from nnhal_hosting.faults.conditions import Condition

DEATHS = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTERM")
"""The signals by which a device can be told to die. SIGTERM has it end in order."""
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


class ErrorFault(Condition):
    """The call fails with a status."""

    what: Literal["error"]
    status: Status = "GENERAL_FAILURE"
    message: str = Field(default="", max_length=1000)
    """What the client is told besides the fault's name."""

    @property
    def error_status(self) -> ErrorStatus:
        """The status of the HAL."""
        return ErrorStatus[self.status]


class DelayFault(Condition):
    """The call takes longer: by ``ms``, or by what is drawn from a distribution around it."""

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
        """A delay in seconds."""
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


class HangFault(Condition):
    """The call does not end until the fault is cleared, whatever its deadline is."""

    what: Literal["hang"]


class DeathFault(Condition):
    """The process dies in the call, by a signal or with an exit status."""

    what: Literal["death"]
    signal: Literal["", "SIGKILL", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTERM"] = ""
    exit: int | None = Field(default=None, ge=0, le=255)

    @model_validator(mode="after")
    def _one(self) -> DeathFault:
        if self.signal and self.exit is not None:
            raise ValueError(f"got signal {self.signal} and exit {self.exit}, expected one of them (SIGKILL without)")
        return self
