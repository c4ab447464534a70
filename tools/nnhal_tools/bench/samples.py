"""Measured durations."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Protocol

import numpy as np


class Action(Protocol):
    """An action that is measured."""

    def __call__(self) -> object:
        """Do the action once."""
        ...


@dataclass(slots=True)
class Samples:
    """Durations of one action, nanoseconds."""

    values: list[int] = field(default_factory=list)

    def measure(self, action: Action) -> None:
        """Do the action once and note how long it took."""
        started = perf_counter_ns()
        action()
        self.values.append(perf_counter_ns() - started)

    def percentile(self, percent: float) -> float:
        """A percentile, nanoseconds."""
        return float(np.percentile(self.values, percent))
