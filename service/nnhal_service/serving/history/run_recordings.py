"""RunRecordings: the next runs of a model, or of all models, measured and kept with their reports."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nnhal_service.serving.history.ended_runs import ALL_MODELS, EndedRun

MOST_RUNS = 1000
"""The runs of one recording."""
_KEPT = 8
"""The recordings that are kept; the oldest is dropped for a new one."""


@dataclass(frozen=True, slots=True)
class RunRecording:
    """Content of a recording so far."""

    model: str
    """ALL_MODELS for all."""
    runs: Sequence[EndedRun]
    left: int
    """How many are still to come."""


class RunRecordingProgress(NamedTuple):
    """Progress of a recording."""

    number: int
    model: str
    """ALL_MODELS for all."""
    runs: int
    left: int


@dataclass(slots=True)
class _Open:
    model: str
    left: int
    began_ns: int
    runs: list[EndedRun] = field(default_factory=list)


class RunRecordings:
    """The recordings of the framework. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._kept: dict[int, _Open] = {}
        self.recorded: Collection[str] = ()
        """The models whose runs are to be measured, with ALL_MODELS for all. May be read at any time."""
        self.changed: Callable[[], None] = _nothing
        """Called when ``recorded`` has changed."""

    def begin(self, model: str, count: int) -> int:
        """Record the next ``count`` runs of a model, and return the recording's number.

        Raises ValueError if the count is not from 1 to MOST_RUNS.
        """
        if not 1 <= count <= MOST_RUNS:
            raise ValueError(f"{count} runs are to be recorded, expected 1 to {MOST_RUNS}")
        with self._lock:
            number = next(self._numbers)
            self._kept[number] = _Open(model, count, time.monotonic_ns())
            while len(self._kept) > _KEPT:
                del self._kept[min(self._kept)]
            self._note()
        self.changed()
        return number

    def get(self, number: int) -> RunRecording | None:
        """Return what a recording has so far; None if there is none of that number, or none any more."""
        with self._lock:
            kept = self._kept.get(number)
            return None if kept is None else RunRecording(kept.model, tuple(kept.runs), kept.left)

    def states(self) -> list[RunRecordingProgress]:
        """Return how far each recording is that is kept, the oldest first."""
        with self._lock:
            return [
                RunRecordingProgress(number, kept.model, len(kept.runs), kept.left)
                for number, kept in self._kept.items()
            ]

    def take(self, run: EndedRun) -> EndedRun:
        """Add a run that was measured, or has failed, to the recordings that want it.

        Returns it with the number of one of them, and without its report.
        """
        is_over = False
        with self._lock:
            for number, kept in self._kept.items():
                if kept.left and kept.model in (ALL_MODELS, run.model) and run.arrived_ns >= kept.began_ns:
                    run = run._replace(recording=number)
                    kept.runs.append(run)
                    kept.left -= 1
                    is_over = is_over or not kept.left
            if is_over:
                self._note()
        if is_over:
            self.changed()
        return run._replace(report=None)

    def _note(self) -> None:
        self.recorded = frozenset(kept.model for kept in self._kept.values() if kept.left)


def _nothing() -> None:
    """Nobody else measures."""
